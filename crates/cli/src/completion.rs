//! Words that shells complete where a command takes any text.
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};
use std::ffi::OsStr;

/// Parses with another parser, and names words for completion.
#[derive(Clone)]
pub struct Completing<P>(pub P, pub fn() -> Vec<String>);

impl<P: TypedValueParser> TypedValueParser for Completing<P> {
    type Value = P::Value;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<P::Value, Error> {
        self.0.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.1)().into_iter().map(PossibleValue::new)))
    }
}

/// `name=value` for the values of a help text such as `auto|N|lz4[:3..16]`. In place of a value in capitals is nothing.
pub fn assignments(name: &str, values: &str) -> Vec<String> {
    let stands_for_itself = |v: &&str| !v.is_empty() && v.chars().all(|c| !c.is_ascii_uppercase());
    let plain = |v: &'_ str| v.split(['[', ':']).next().unwrap_or_default().to_owned();
    let value = |v: &str| if stands_for_itself(&v) { plain(v) } else { String::new() };
    let mut all: Vec<String> = values.split('|').map(|v| format!("{name}={}", value(v))).collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_capitals_are_left_open() {
        assert_eq!(assignments("a", "auto|N|zstd[:1..22]"), ["a=", "a=auto", "a=zstd"]);
    }
}
