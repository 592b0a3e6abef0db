//! A row of an option table, and matching a word of an option line with it.

use std::str::FromStr;

/// One mount option, which changes settings of the type `S`. The constructors below keep a row of a table short.
pub struct Row<S: 'static> {
    /// Its name.
    pub name: &'static str,
    /// Default, as it is written after `name=`, or a short description.
    pub default: &'static str,
    /// One sentence for help texts and manuals, without a period.
    pub help: &'static str,
    syntax: Syntax<S>,
}

/// How an option is written, and its effect on the settings.
enum Syntax<S: 'static> {
    /// `name`.
    Switch(fn(&mut S)),
    /// `name` or `noname`.
    Pair(fn(&mut S) -> &mut bool),
    /// `name`, `noname` or `name=value`.
    PairOrValue(fn(&mut S, bool), &'static str, Parse<S>),
    /// `name=word`, one of these.
    Words(&'static [Word<S>]),
    /// `name=value`: the placeholder for the value in help texts, and the parser.
    Value(&'static str, Parse<S>),
}

/// A word that an option takes, and its effect.
pub type Word<S> = (&'static str, fn(&mut S));
type Parse<S> = fn(&mut S, &str) -> Result<(), String>;

/// `name`: off unless it is given.
pub const fn switch<S>(name: &'static str, help: &'static str, set: fn(&mut S)) -> Row<S> {
    Row { name, default: "off", help, syntax: Syntax::Switch(set) }
}

/// `name` turns a setting on and `noname` off.
pub const fn pair<S>(
    name: &'static str,
    default: &'static str,
    help: &'static str,
    field: fn(&mut S) -> &mut bool,
) -> Row<S> {
    Row { name, default, help, syntax: Syntax::Pair(field) }
}

/// `name` and `noname` choose between two settings, `name=value` among more.
pub const fn pair_or_value<S>(
    name: &'static str,
    syntax: &'static str,
    default: &'static str,
    help: &'static str,
    set: fn(&mut S, bool),
    parse: Parse<S>,
) -> Row<S> {
    Row { name, default, help, syntax: Syntax::PairOrValue(set, syntax, parse) }
}

/// `name=word`; the first word is the default.
pub const fn words<S>(name: &'static str, help: &'static str, words: &'static [Word<S>]) -> Row<S> {
    let default = match words {
        [(first, _), ..] => first,
        [] => "",
    };
    Row { name, default, help, syntax: Syntax::Words(words) }
}

/// `name=value`.
pub const fn value<S>(
    name: &'static str,
    syntax: &'static str,
    default: &'static str,
    help: &'static str,
    parse: Parse<S>,
) -> Row<S> {
    Row { name, default, help, syntax: Syntax::Value(syntax, parse) }
}

impl<S> Row<S> {
    /// Applies a word, split at its `=`. `None` if it does not name this option.
    pub fn apply(&self, settings: &mut S, name: &str, value: Option<&str>) -> Option<Result<(), String>> {
        let named = name == self.name;
        let negated = self.opposite().is_some_and(|o| o == name);
        if !named && !negated {
            return None;
        }
        Some(match (&self.syntax, value) {
            (Syntax::Switch(set), None) => {
                set(settings);
                Ok(())
            }
            (Syntax::Pair(field), None) => {
                *field(settings) = named;
                Ok(())
            }
            (Syntax::PairOrValue(set, ..), None) => {
                set(settings, named);
                Ok(())
            }
            (Syntax::Words(words), Some(value)) => choose(words, value).map(|set| set(settings)),
            (Syntax::Value(_, parse), Some(value)) => parse(settings, value),
            (Syntax::PairOrValue(_, _, parse), Some(value)) if named => parse(settings, value),
            (_, None) => Err(format!("a value is needed: {}", self.syntax())),
            (_, Some(_)) => Err("no value is taken".into()),
        })
    }

    /// The word that turns the option off, if there is one.
    pub fn opposite(&self) -> Option<String> {
        match self.syntax {
            Syntax::Pair(_) | Syntax::PairOrValue(..) => Some(format!("no{}", self.name)),
            _ => None,
        }
    }

    /// How it is written: `[no]acl`, `mode=adaptive|lfs`, `cache=SIZE`.
    pub fn syntax(&self) -> String {
        let name = self.name;
        match self.syntax {
            Syntax::Switch(_) => name.to_owned(),
            Syntax::Pair(_) => format!("[no]{name}"),
            Syntax::Words(words) => format!("{name}={}", names(words).collect::<Vec<_>>().join("|")),
            Syntax::Value(value, _) => format!("{name}={value}"),
            Syntax::PairOrValue(_, value, _) => format!("[no]{name}, {name}={value}"),
        }
    }
}

/// Parses a number that is at least 1.
pub fn from_one<T: FromStr + PartialOrd + From<u8>>(value: &str) -> Result<T, String> {
    value.parse().ok().filter(|n| *n >= T::from(1)).ok_or_else(|| "a number from 1 is needed".into())
}

fn names<S>(words: &'static [Word<S>]) -> impl Iterator<Item = &'static str> {
    words.iter().map(|(name, _)| *name)
}

fn choose<S>(words: &'static [Word<S>], value: &str) -> Result<fn(&mut S), String> {
    let found = words.iter().find(|(name, _)| *name == value).map(|(_, set)| *set);
    found.ok_or_else(|| {
        let names: Vec<&str> = names(words).collect();
        match names.split_last() {
            Some((last, [])) => format!("choose {last}"),
            Some((last, others)) => format!("choose {} or {last}", others.join(", ")),
            None => String::new(),
        }
    })
}
