//! Version of the running kernel, for behaviour that the protocol does not negotiate.
use rustix::system::uname;

/// Release as `uname -r` prints it.
pub(crate) fn release() -> String {
    uname().release().to_string_lossy().into_owned()
}

/// Major and minor number of the running kernel.
#[must_use]
pub fn version() -> Option<(u32, u32)> {
    parse(&release())
}

fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_compare_as_numbers() {
        assert_eq!(parse("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(parse("7.1-rc3"), Some((7, 1)));
        assert!(parse("7.10.0") > parse("7.9") && parse("unknown") < parse("0.1"));
    }
}
