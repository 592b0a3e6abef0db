//! The shared files of the AWS programs: a profile has keys, a region and an endpoint.
use object_store::aws::AwsCredential;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A profile of both files.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub name: String,
    /// Whether the environment names it; then it must exist.
    pub is_named: bool,
    /// File with keys, which takes precedence over the other one.
    pub credentials: PathBuf,
    /// File with keys and settings.
    pub config: PathBuf,
}

/// Settings of a section. One in a nested block has the key `block.name`.
type Section = BTreeMap<String, String>;

impl Profile {
    /// The profile that the environment names.
    pub(crate) fn of_env(env: impl Fn(&str) -> Option<String>) -> Self {
        let name = env("AWS_PROFILE").filter(|name| !name.is_empty());
        let file = |variable, name: &str| {
            let named = env(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
            let home = std::env::home_dir().map(|home| home.join(".aws").join(name));
            // The server of a mount has another working directory.
            std::path::absolute(named.or(home).unwrap_or_default()).unwrap_or_default()
        };
        Self {
            is_named: name.is_some(),
            name: name.unwrap_or_else(|| "default".to_owned()),
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: file("AWS_CONFIG_FILE", "config"),
        }
    }

    /// Its key. The files are read at each call, as they may change while a volume is in use.
    pub(crate) fn key(&self) -> Option<AwsCredential> {
        [self.of_credentials(), self.of_config()].into_iter().find_map(|section| {
            let get = |name: &str| section.get(name).cloned();
            Some(AwsCredential {
                key_id: get("aws_access_key_id")?,
                secret_key: get("aws_secret_access_key")?,
                token: get("aws_session_token"),
            })
        })
    }

    pub(crate) fn region(&self) -> Option<String> {
        [self.of_credentials(), self.of_config()].into_iter().find_map(|mut section| section.remove("region"))
    }

    /// The endpoint of S3: that of its services section, otherwise the one for all services.
    pub(crate) fn endpoint(&self) -> Option<String> {
        let mut section = self.of_config();
        let services =
            section.get("services").map(|name| self.read(&self.config, &format!("services {name}")));
        let of_s3 = services.and_then(|mut services| services.remove("s3.endpoint_url"));
        of_s3.or_else(|| section.remove("endpoint_url"))
    }

    /// Where it is, for messages.
    pub(crate) fn describe(&self) -> String {
        format!("profile {} in {} and {}", self.name, self.credentials.display(), self.config.display())
    }

    fn of_credentials(&self) -> Section {
        self.read(&self.credentials, &self.name)
    }

    fn of_config(&self) -> Section {
        let mut found = self.read(&self.config, &format!("profile {}", self.name));
        if found.is_empty() && self.name == "default" {
            found = self.read(&self.config, "default");
        }
        found
    }

    /// A section; empty if the section or the file does not exist.
    fn read(&self, file: &PathBuf, section: &str) -> Section {
        std::fs::read_to_string(file).map(|text| parse(&text, section)).unwrap_or_default()
    }
}

/// The settings of a section.
pub(crate) fn parse(text: &str, section: &str) -> Section {
    let (mut found, mut is_there, mut block) = (Section::new(), false, String::new());
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_there = name.split_whitespace().eq(section.split_whitespace());
            block.clear();
            continue;
        }
        let Some((name, value)) = trimmed.split_once('=') else { continue };
        let (name, value) = (name.trim(), value.trim());
        let is_nested = line.starts_with(char::is_whitespace) && !block.is_empty();
        if !is_nested {
            block = if value.is_empty() { name.to_owned() } else { String::new() };
        }
        if is_there && !value.is_empty() {
            let name = if is_nested { format!("{block}.{name}") } else { name.to_owned() };
            found.insert(name, value.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forms of the AWS documentation.
    #[test]
    fn a_profile_has_what_both_files_say_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let of = |variable: &str| match variable {
            "AWS_SHARED_CREDENTIALS_FILE" => {
                Some(dir.path().join("credentials").to_str().unwrap().to_owned())
            }
            "AWS_CONFIG_FILE" => Some(dir.path().join("config").to_str().unwrap().to_owned()),
            _ => None,
        };
        let of_name = |name: &str| {
            let name = name.to_owned();
            Profile::of_env(
                move |variable| if variable == "AWS_PROFILE" { Some(name.clone()) } else { of(variable) },
            )
        };
        assert!(Profile::of_env(of).key().is_none());
        std::fs::write(
            dir.path().join("credentials"),
            "[default]\naws_access_key_id=a\naws_secret_access_key=b\n",
        )
        .unwrap();
        std::fs::write(
            dir.path().join("config"),
            "[default]\nregion = eu-1\naws_access_key_id=x\naws_secret_access_key=y\nendpoint_url=https://all\n\
             # other\n[profile dev]\naws_access_key_id = c\naws_secret_access_key = d=\naws_session_token = e\n\
             services = local\n[services local]\ndynamodb =\n  endpoint_url = http://d\ns3 =\n  endpoint_url = \
             http://127.0.0.1:9000\n",
        )
        .unwrap();
        let (default, dev) = (Profile::of_env(of), of_name("dev"));
        let key = |profile: &Profile| profile.key().map(|key| (key.key_id, key.secret_key, key.token));
        assert_eq!(key(&default), Some(("a".into(), "b".into(), None)), "the credentials file counts first");
        assert_eq!(
            (default.region().as_deref(), default.endpoint().as_deref()),
            (Some("eu-1"), Some("https://all"))
        );
        assert_eq!(key(&dev), Some(("c".into(), "d=".into(), Some("e".into()))));
        assert_eq!((dev.region(), dev.endpoint().as_deref()), (None, Some("http://127.0.0.1:9000")));
        assert!(dev.is_named && !default.is_named);
        let absent = of_name("absent");
        assert_eq!((absent.key(), absent.region(), absent.endpoint()), (None, None, None));
    }
}
