//! Volumes in every state through the commands that read them.
mod tree;
mod zeros;
