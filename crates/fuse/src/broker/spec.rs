//! Description of the mount that a broker makes, as arguments of the process.
use crate::block::Backing;
use crate::options::{AtDeath, FuseOptions, options};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Words for the fate of the mount after the server was killed.
const ENDS: [(AtDeath, &str); 3] =
    [(AtDeath::Stay, "stay"), (AtDeath::Unmount, "auto_unmount"), (AtDeath::MakeRoom, "make_room")];

/// A mount to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) dir: PathBuf,
    pub(super) source: String,
    pub(super) backing: Backing,
    pub(super) at_death: AtDeath,
    pub(super) options: Vec<String>,
}

impl Spec {
    pub(super) fn of(dir: &Path, opts: &FuseOptions) -> Self {
        Self {
            dir: dir.to_owned(),
            source: opts.source.clone(),
            backing: opts.backing.where_useful(),
            at_death: opts.at_death,
            options: options(opts),
        }
    }

    pub(super) fn to_args(&self) -> Vec<OsString> {
        let (kind, value) = match &self.backing {
            Backing::Nothing(why) => ("fuse", OsString::from(why)),
            Backing::Device(device) => ("device", device.into()),
            Backing::Image(image) => ("image", image.into()),
        };
        let end = ENDS.iter().find(|(end, _)| *end == self.at_death).map_or("", |(_, word)| word);
        let first = [self.dir.clone().into(), OsString::from(&self.source), kind.into(), value, end.into()];
        first.into_iter().chain(self.options.iter().map(OsString::from)).collect()
    }

    /// The reverse of [`Self::to_args`]; `None` for any other arguments.
    pub(super) fn parse(args: &[OsString]) -> Option<Self> {
        let [dir, source, kind, value, end, options @ ..] = args else { return None };
        let text = |word: &OsStr| word.to_str().map(str::to_owned);
        let backing = match kind.to_str()? {
            "fuse" => Backing::Nothing(text(value)?),
            "device" => Backing::Device(value.into()),
            "image" => Backing::Image(value.into()),
            _ => return None,
        };
        let end = end.to_str()?;
        let at_death = ENDS.iter().find(|(_, word)| *word == end)?.0;
        let options = options.iter().map(|o| text(o)).collect::<Option<_>>()?;
        Some(Self { dir: dir.into(), source: text(source)?, backing, at_death, options })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn an_order_is_the_same_after_it_was_passed() {
        let not_utf8: PathBuf = OsString::from_vec(b"/dev/\xff".to_vec()).into();
        for (backing, at_death) in [
            (Backing::Nothing("only root mounts block devices".into()), AtDeath::Unmount),
            (Backing::Device(not_utf8.clone()), AtDeath::Stay),
            (Backing::Image("/a b,c".into()), AtDeath::MakeRoom),
        ] {
            let (source, options) =
                ("s3://a,b".to_owned(), vec!["ro".to_owned(), "subtype=segno".to_owned()]);
            let spec = Spec { dir: not_utf8.clone(), source, backing, at_death, options };
            assert_eq!(Spec::parse(&spec.to_args()), Some(spec));
        }
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for broken in ["", "/mnt", "/mnt /img fuse why", "/mnt /img disk why stay", "/mnt /img fuse why go"] {
            assert_eq!(Spec::parse(&words(broken)), None, "{broken}");
        }
    }
}
