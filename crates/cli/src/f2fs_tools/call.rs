//! A command line in the form of getopt(3), read by the table of its program.
use super::tool::{Effect, Row, Tool};
use anyhow::{Result, anyhow, bail, ensure};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A command line that the table permits.
pub struct Call {
    pub tool: &'static Tool,
    /// In the order given.
    given: Vec<(&'static Row, OsString)>,
    pub operands: Vec<OsString>,
    /// The options as they are, for the original program.
    pub words: Vec<OsString>,
}

impl Call {
    /// Operands may be between options. An option without value has an empty one.
    pub fn parse(tool: &'static Tool, args: &[OsString]) -> Result<Self> {
        let mut call = Self { tool, given: Vec::new(), operands: Vec::new(), words: args.to_vec() };
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            match word.as_bytes() {
                b"--" => call.operands.extend(rest.by_ref().cloned()),
                [b'-', b'-', long @ ..] => call.long(long, &mut rest)?,
                [b'-', letters @ ..] if !letters.is_empty() => call.letters(letters, &mut rest)?,
                _ => call.operands.push(word.clone()),
            }
        }
        Ok(call)
    }

    fn long(&mut self, word: &[u8], rest: &mut std::slice::Iter<'_, OsString>) -> Result<()> {
        let mut parts = word.splitn(2, |&b| b == b'=');
        let name = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        let value = parts.next().map(|v| OsStr::from_bytes(v).to_owned());
        let row = self.tool.options.iter().find(|r| r.long() == Some(name.as_str()));
        let row = row.ok_or_else(|| self.unknown(&format!("--{name}")))?;
        let value = match (row.value, value) {
            (false, Some(_)) => bail!("{}: --{name} takes no value", self.tool.name),
            (false, None) => OsString::new(),
            (true, Some(value)) => value,
            (true, None) => self.needed(row, rest)?,
        };
        self.add(row, value)
    }

    fn letters(&mut self, mut letters: &[u8], rest: &mut std::slice::Iter<'_, OsString>) -> Result<()> {
        while let Some((&letter, after)) = letters.split_first() {
            let row = self.tool.options.iter().find(|r| r.letter() == Some(char::from(letter)));
            let row =
                row.ok_or_else(|| self.unknown(&format!("-{}", char::from(letter).escape_default())))?;
            if row.effect == Effect::Level {
                letters = self.level(row, after, rest)?;
                continue;
            }
            if !row.value {
                self.add(row, OsString::new())?;
                letters = after;
                continue;
            }
            let attached = (!after.is_empty()).then(|| OsString::from_vec(after.to_vec()));
            let value = attached.map_or_else(|| self.needed(row, rest), Ok)?;
            return self.add(row, value);
        }
        Ok(())
    }

    /// `-p` of fsck.f2fs: its value is a digit, attached or the next word, if another word follows that one.
    fn level<'a>(
        &mut self,
        row: &'static Row,
        after: &'a [u8],
        rest: &mut std::slice::Iter<'_, OsString>,
    ) -> Result<&'a [u8]> {
        self.add(row, OsString::new())?;
        if let Some((b'0'..=b'9', after)) = after.split_first() {
            return Ok(after);
        }
        let is_level = |w: &OsString| !w.is_empty() && w.as_bytes().iter().all(u8::is_ascii_digit);
        if after.is_empty() && rest.len() > 1 && rest.clone().next().is_some_and(is_level) {
            rest.next();
        }
        Ok(after)
    }

    fn needed(&self, row: &Row, rest: &mut std::slice::Iter<'_, OsString>) -> Result<OsString> {
        rest.next().cloned().ok_or_else(|| anyhow!("{}: {} needs a value", self.tool.name, row.shown()))
    }

    fn add(&mut self, row: &'static Row, value: OsString) -> Result<()> {
        let name = self.tool.name;
        match row.effect {
            Effect::Refused(why) => bail!("{name}: {} is not supported: {why}", row.shown()),
            Effect::Only(values, why) => ensure!(
                values.iter().any(|v| OsStr::new(v) == value),
                "{name}: {} {} is not supported: {why}",
                row.shown(),
                value.to_string_lossy()
            ),
            _ => {}
        }
        self.given.push((row, value));
        Ok(())
    }

    fn unknown(&self, option: &str) -> anyhow::Error {
        anyhow!("{} has no option {option}", self.tool.name)
    }

    pub fn has(&self, letter: char) -> bool {
        self.value(letter).is_some()
    }

    pub fn has_long(&self, name: &str) -> bool {
        self.given.iter().any(|(row, _)| row.long() == Some(name))
    }

    /// The last value of an option.
    pub fn value(&self, letter: char) -> Option<&OsStr> {
        self.values(letter).last()
    }

    pub fn values(&self, letter: char) -> impl Iterator<Item = &OsStr> {
        self.given
            .iter()
            .filter(move |(row, _)| row.letter() == Some(letter))
            .map(|(_, value)| value.as_os_str())
    }

    /// The value of an option as text.
    pub fn text(&self, letter: char) -> Result<Option<&str>> {
        let not_text = || anyhow!("{}: the value of -{letter} is not UTF-8", self.tool.name);
        self.value(letter).map(|value| value.to_str().ok_or_else(not_text)).transpose()
    }

    /// A number in the notation of strtoul(3): decimal, 0x… or 0….
    pub fn number(&self, letter: char) -> Result<Option<u64>> {
        let parsed = |text: &str| match text.as_bytes() {
            [b'0', b'x' | b'X', ..] => u64::from_str_radix(text.get(2..).unwrap_or_default(), 16).ok(),
            [b'0', _, ..] => u64::from_str_radix(text, 8).ok(),
            _ => text.parse().ok(),
        };
        let number = |text: &str| {
            parsed(text).ok_or_else(|| anyhow!("{}: -{letter} {text:?} is not a number", self.tool.name))
        };
        self.text(letter)?.map(number).transpose()
    }

    /// The options that Segno's command has too. Of a repeated option the last one counts, unless all count.
    pub fn own(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        for (at, (row, value)) in self.given.iter().enumerate() {
            let again = || self.given.iter().skip(at + 1).any(|(later, _)| later.option == row.option);
            let option = match row.effect {
                Effect::Each => row.shown(),
                Effect::Same if !again() => row.shown(),
                _ => continue,
            };
            words.push(option.into());
            if row.value {
                words.push(value.clone());
            }
        }
        words
    }

    /// The only operand.
    pub fn device(&self) -> Result<&OsStr> {
        let device =
            self.operands.first().ok_or_else(|| anyhow!("{}: no device is named", self.tool.name))?;
        match self.operands.get(1) {
            None => Ok(device),
            Some(word) => bail!("{}: {} is one word too many", self.tool.name, word.to_string_lossy()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::f2fs_tools::{call::Call, of};
    use std::ffi::OsString;

    fn read(line: &str) -> Result<Call, String> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Call::parse(&of(&args).unwrap().tool, &args[1..]).map_err(|e| e.to_string())
    }

    #[test]
    fn options_are_read_as_getopt_does() {
        let words = |line: &str| {
            let call = read(line).unwrap();
            let text = |w: &OsString| w.to_str().unwrap().to_owned();
            (
                call.own().iter().map(text).collect::<Vec<_>>().join(" "),
                call.operands.iter().map(text).collect::<Vec<_>>().join(" "),
            )
        };
        for (line, own, operands) in [
            ("mkfs.f2fs -qf -lname IMAGE 1000", "-q -f -l name", "IMAGE 1000"),
            ("make_f2fs IMAGE -l a -l b", "-l b", "IMAGE"),
            ("mkfs.f2fs -O a -O b,c -c /x -c /y IMAGE", "-O a -O b,c -c /x -c /y", "IMAGE"),
            // systemd: the value of -g is the -f that follows it.
            ("mkfs.f2fs -q -g -f -l L -t 0 DEV", "-q -l L -t 0", "DEV"),
            ("mkfs.f2fs -d1 -a0 -b 4096 -- -DEV", "", "-DEV"),
            ("fsck.f2fs -p 1 DEV", "", "DEV"),
            ("fsck.f2fs -p 1", "", "1"),
            ("fsck.f2fs -p1c 100 DEV", "", "DEV"),
            ("fsck_f2fs -a --nolinear-lookup=1 --debug-cache DEV", "", "DEV"),
        ] {
            assert_eq!(words(line), (own.to_owned(), operands.to_owned()), "{line}");
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (line, said) in [
            ("mkfs.f2fs -b 16384 DEV", "mkfs.f2fs: -b 16384 is not supported: blocks have 4096 bytes"),
            ("mkfs.f2fs -y DEV", "mkfs.f2fs has no option -y"),
            ("mkfs.f2fs DEV -l", "mkfs.f2fs: -l needs a value"),
            (
                "fsck.f2fs --fault_injection=2 DEV",
                "fsck.f2fs: --fault_injection is not supported: no faults are injected",
            ),
            ("fsck.f2fs --dry-run=1 DEV", "fsck.f2fs: --dry-run takes no value"),
            ("fsck.f2fs --wet-run DEV", "fsck.f2fs has no option --wet-run"),
            ("sload.f2fs -\u{1b} DEV", "sload.f2fs has no option -\\u{1b}"),
        ] {
            assert_eq!(read(line).err().as_deref(), Some(said), "{line}");
        }
    }
}
