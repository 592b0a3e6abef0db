//! Requests to the store: endpoints, credentials, answers, names and encoding of objects.
pub(crate) mod answer;
mod body;
pub(crate) mod codec;
mod credentials;
mod endpoint;
pub(crate) mod host_files;
pub(crate) mod names;
pub(crate) mod pieces;
pub(crate) mod profile;
pub(crate) mod remote;
mod renewal;
pub(crate) mod transport;
pub(crate) mod url;
