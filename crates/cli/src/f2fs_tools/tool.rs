//! Names of the programs of f2fs-tools, and the effects of their options here.

/// A program of f2fs-tools.
pub struct Tool {
    /// The name in Debian's package.
    pub name: &'static str,
    /// Android's name of it.
    pub of_android: Option<&'static str>,
    pub options: &'static [Row],
    /// Exit codes of a wrong command line, and of a failure that has no other code.
    pub usage: u8,
    pub failed: u8,
}

impl Tool {
    /// All its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name].into_iter().chain(self.of_android)
    }
}

/// An option, with or without a value.
pub struct Row {
    pub option: Name,
    pub value: bool,
    pub effect: Effect,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Name {
    Letter(char),
    Long(&'static str),
}

/// The effect of an option here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Segno's command has the same one, of which the last counts.
    Same,
    /// Segno's command has the same one, of which all count.
    Each,
    /// The program's module reads it.
    Own,
    /// As `Own`, with a digit as optional value that changes nothing.
    Level,
    /// It changes nothing.
    Nothing,
    /// It changes nothing with these values; why there are no others.
    Only(&'static [&'static str], &'static str),
    /// It is refused: the reason, and the option to use instead.
    Refused(&'static str),
}

impl Row {
    pub fn letter(&self) -> Option<char> {
        match self.option {
            Name::Letter(letter) => Some(letter),
            Name::Long(_) => None,
        }
    }

    pub fn long(&self) -> Option<&'static str> {
        match self.option {
            Name::Letter(_) => None,
            Name::Long(name) => Some(name),
        }
    }

    pub fn shown(&self) -> String {
        match self.option {
            Name::Letter(letter) => format!("-{letter}"),
            Name::Long(name) => format!("--{name}"),
        }
    }
}

pub const fn flag(letter: char, effect: Effect) -> Row {
    Row { option: Name::Letter(letter), value: false, effect }
}

pub const fn with(letter: char, effect: Effect) -> Row {
    Row { option: Name::Letter(letter), value: true, effect }
}

pub const fn long(name: &'static str, value: bool, effect: Effect) -> Row {
    Row { option: Name::Long(name), value, effect }
}
