//! The differences of two manifests, listed by file and field.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;

/// How strictly manifests are compared.
#[derive(Args, Clone, Debug, Default)]
pub struct Comparison {
    /// Field to leave out, such as dsize or btime (repeat)
    #[arg(long = "ignore", value_name = "FIELD")]
    pub ignored: Vec<String>,
    /// Compare only what is in the first manifest; the second may have more files, and files more fields
    #[arg(long)]
    pub subset: bool,
}

type Fields<'a> = BTreeMap<&'a str, &'a str>;

/// One sentence for each file that is missing, too many, or differs.
pub fn compare(expected: &str, actual: &str, comparison: &Comparison) -> Result<Vec<String>> {
    let expected = parse(expected, comparison)?;
    let mut actual = parse(actual, comparison)?;
    let mut differences = Vec::new();
    for (path, wanted) in expected {
        match actual.remove(path) {
            None => differences.push(format!("{path}: missing")),
            Some(mut found) => {
                if comparison.subset {
                    found.retain(|key, _| wanted.contains_key(key));
                }
                differences.extend(field_differences(path, &wanted, &found));
            }
        }
    }
    if !comparison.subset {
        differences.extend(actual.into_keys().map(|path| format!("{path}: should not be there")));
    }
    Ok(differences)
}

fn field_differences(path: &str, wanted: &Fields<'_>, found: &Fields<'_>) -> Option<String> {
    let mut keys: Vec<_> = wanted.keys().chain(found.keys()).collect();
    keys.sort();
    keys.dedup();
    let parts: Vec<_> = keys
        .into_iter()
        .filter_map(|key| {
            let show =
                |fields: &Fields<'_>| fields.get(key).map_or("none".to_owned(), |value| (*value).to_owned());
            let (wanted, found) = (show(wanted), show(found));
            (wanted != found).then(|| format!("{key} is {found}, should be {wanted}"))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("{path}: {}", parts.join("; ")))
}

fn parse<'a>(text: &'a str, comparison: &Comparison) -> Result<BTreeMap<&'a str, Fields<'a>>> {
    let mut files = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split(' ');
        let path = words.next().unwrap_or_default();
        let mut fields = Fields::new();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                bail!("line {} is no manifest line: {line}", number + 1);
            };
            if !comparison.ignored.iter().any(|ignored| ignored == key) {
                fields.insert(key, value);
            }
        }
        if fields.is_empty() || files.insert(path, fields).is_some() {
            bail!("line {} is no manifest line, or names {path} again", number + 1);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = ". type=dir dsize=3\na type=file size=1\nb type=file size=2 xattr:user.x=a=b\n";

    fn differences(actual: &str, comparison: &Comparison) -> Vec<String> {
        compare(BASE, actual, comparison).unwrap()
    }

    #[test]
    fn each_kind_of_difference_is_told_once() {
        assert!(differences(BASE, &Comparison::default()).is_empty());
        let actual = ". type=dir dsize=4\nb type=file size=9\nc type=fifo\n";
        assert_eq!(
            differences(actual, &Comparison::default()),
            [
                ".: dsize is 4, should be 3",
                "a: missing",
                "b: size is 9, should be 2; xattr:user.x is none, should be a=b",
                "c: should not be there",
            ]
        );
    }

    #[test]
    fn ignored_fields_and_added_files_pass() {
        let actual = BASE.replace("dsize=3", "dsize=7") + "c type=fifo\n";
        let comparison = Comparison { ignored: vec!["dsize".into()], subset: true };
        assert!(differences(&actual, &comparison).is_empty());
        assert_eq!(differences(&BASE.replace("size=1", "size=5"), &comparison).len(), 1);
        assert!(differences(&BASE.replace("size=1", "size=1 crc=0"), &comparison).is_empty());
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        assert!(compare("one two\n", "", &Comparison::default()).is_err());
        assert!(compare("a x=1\na x=1\n", "", &Comparison::default()).is_err());
    }
}
