//! What a row of the option table holds, and how a word of `-o` is matched with it.
use super::Settings;
use rustix::mount::MountFlags;

/// One mount option. The constructors below keep a row of [`super::table`] short.
pub struct MountOption {
    pub name: &'static str,
    /// Default, as it is written after `name=`, or a short description.
    pub default: &'static str,
    /// One sentence for `segno mount --help` and docs/mount-options.md, without a period.
    pub help: &'static str,
    syntax: Syntax,
}

/// How an option is written, and its effect on the settings.
enum Syntax {
    /// `name`.
    Switch(fn(&mut Settings)),
    /// `name` or `noname`.
    Pair(fn(&mut Settings) -> &mut bool),
    /// `name`, `noname` or `name=value`.
    PairOrValue(fn(&mut Settings, bool), &'static str, Parse),
    /// A flag of mount(2) with its opposite, and its bit if a remount can change it.
    Flag(&'static str, MountFlags),
    /// `name=word`, one of these.
    Words(&'static [Word]),
    /// `name=value`: what stands for the value in help texts, and the parser.
    Value(&'static str, Parse),
}

/// A word that an option takes, and its effect.
pub type Word = (&'static str, fn(&mut Settings));
type Parse = fn(&mut Settings, &str) -> Result<(), String>;

/// `name`: off unless it is given.
pub const fn switch(name: &'static str, help: &'static str, set: fn(&mut Settings)) -> MountOption {
    MountOption { name, default: "off", help, syntax: Syntax::Switch(set) }
}

/// `name` turns a setting on and `noname` off.
pub const fn pair(
    name: &'static str,
    default: &'static str,
    help: &'static str,
    field: fn(&mut Settings) -> &mut bool,
) -> MountOption {
    MountOption { name, default, help, syntax: Syntax::Pair(field) }
}

/// `name` and `noname` choose between two settings, `name=value` among more.
pub const fn pair_or_value(
    name: &'static str,
    syntax: &'static str,
    default: &'static str,
    help: &'static str,
    set: fn(&mut Settings, bool),
    parse: Parse,
) -> MountOption {
    MountOption { name, default, help, syntax: Syntax::PairOrValue(set, syntax, parse) }
}

/// A flag that the kernel handles; of a flag and its opposite, the later one wins.
pub const fn flag(
    name: &'static str,
    opposite: &'static str,
    default: &'static str,
    remount: MountFlags,
    help: &'static str,
) -> MountOption {
    MountOption { name, default, help, syntax: Syntax::Flag(opposite, remount) }
}

/// `name=word`; the first word is the default.
pub const fn words(name: &'static str, help: &'static str, words: &'static [Word]) -> MountOption {
    let default = match words {
        [(first, _), ..] => first,
        [] => "",
    };
    MountOption { name, default, help, syntax: Syntax::Words(words) }
}

/// `name=value`.
pub const fn value(
    name: &'static str,
    syntax: &'static str,
    default: &'static str,
    help: &'static str,
    parse: Parse,
) -> MountOption {
    MountOption { name, default, help, syntax: Syntax::Value(syntax, parse) }
}

impl MountOption {
    /// Applies a word of `-o`, split at its `=`. `None` if it does not name this option.
    pub fn apply(
        &self,
        settings: &mut Settings,
        name: &str,
        value: Option<&str>,
    ) -> Option<Result<(), String>> {
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
            (Syntax::Flag(opposite, _), None) => {
                settings.fuse.extra.retain(|f| f != self.name && f != opposite);
                settings.fuse.extra.push(name.to_owned());
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
            Syntax::Flag(opposite, _) => Some(opposite.to_owned()),
            _ => None,
        }
    }

    /// The bit of mount(2), and the word that clears it.
    pub fn flag(&self) -> Option<(&'static str, MountFlags)> {
        match self.syntax {
            Syntax::Flag(opposite, bit) => Some((opposite, bit)),
            _ => None,
        }
    }

    /// How it is written: `[no]acl`, `mode=adaptive|lfs`, `cache=SIZE`.
    pub fn syntax(&self) -> String {
        let name = self.name;
        match self.syntax {
            Syntax::Switch(_) => name.to_owned(),
            Syntax::Pair(_) => format!("[no]{name}"),
            Syntax::Flag(opposite, _) => format!("{name}, {opposite}"),
            Syntax::Words(words) => format!("{name}={}", names(words).collect::<Vec<_>>().join("|")),
            Syntax::Value(value, _) => format!("{name}={value}"),
            Syntax::PairOrValue(_, value, _) => format!("[no]{name}, {name}={value}"),
        }
    }
}

fn names(words: &'static [Word]) -> impl Iterator<Item = &'static str> {
    words.iter().map(|(name, _)| *name)
}

fn choose(words: &'static [Word], value: &str) -> Result<fn(&mut Settings), String> {
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
