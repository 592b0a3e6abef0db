//! The endpoint of the store: one rule for all variables that name it.
use crate::wire::profile::Profile;
use reqwest::Url;
use std::net::IpAddr;

/// Variables of the endpoint; the first that is set counts, as in the AWS programs, before a profile.
const NAMES: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
/// A variable that the AWS programs do not know. If its value differed from theirs, they would use another
/// endpoint.
const OWN_NAME: &str = "AWS_ENDPOINT";

/// An endpoint that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint(Url);

impl Endpoint {
    /// The endpoint of the environment or a profile; `None` if it is that of AWS. Errors do not repeat its
    /// value, which may contain a password.
    pub(crate) fn find(
        env: impl Fn(&str) -> Option<String>,
        profile: &Profile,
    ) -> Result<Option<Self>, String> {
        let of_env = |name: &'static str| env(name).map(|text| Self::parse(name, &text).map(|of| (name, of)));
        let known = NAMES.into_iter().find_map(of_env).transpose()?;
        let own = of_env(OWN_NAME).transpose()?;
        match (known, own) {
            (Some((name, a)), Some((_, b))) if a != b => {
                Err(format!("{name} and {OWN_NAME} name different endpoints: unset one of them"))
            }
            (Some((_, found)), _) | (None, Some((_, found))) => Ok(Some(found)),
            (None, None) => {
                let found = profile.endpoint();
                found.map(|text| Self::parse("endpoint_url of the profile", &text)).transpose()
            }
        }
    }

    fn parse(name: &str, text: &str) -> Result<Self, String> {
        const FORM: &str = "https://HOST or http://HOST:PORT";
        if text.is_empty() {
            return Err(format!("{name} is empty: unset it, or set it to {FORM}"));
        }
        let url =
            Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or_else(|| format!("{name} is no address of a store: set it to {FORM}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!(
                "{name} has a user or a password: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead, and {name} to {FORM}"
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("{name} has more than an address: set it to {FORM}"));
        }
        Ok(Self(url))
    }

    /// The text that the client gets.
    pub(crate) fn text(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// Host and port, for messages.
    pub(crate) fn place(&self) -> String {
        let port = self.0.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{}{port}", self.0.scheme(), self.0.host_str().unwrap_or_default())
    }

    /// Whether it is without TLS.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.scheme() == "http"
    }

    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.0.host_str().unwrap_or_default();
        let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        host == "localhost" || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Whether the data sent cannot be changed on its way. If so, its SHA-256 is not signed, which would take
    /// a fifth of the time of sequential writes to MinIO.
    pub(crate) fn is_protected(&self) -> bool {
        !self.is_plain() || self.is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Option<Endpoint>, String> {
        let profile = Profile {
            name: "default".into(),
            is_named: false,
            credentials: "/nonexistent".into(),
            config: "/nonexistent".into(),
        };
        let of =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        Endpoint::find(of, &profile)
    }

    const ALL: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];

    #[test]
    fn every_name_takes_the_same_forms_and_refuses_the_others_without_their_text() {
        for name in ALL {
            for good in ["http://127.0.0.1:9000", "https://s3.example.com/base/", "http://[::1]:9000"] {
                let found = find(&[(name, good)]).unwrap().unwrap();
                assert_eq!(found.text(), good.trim_end_matches('/'), "{name}");
            }
            for bad in [
                "",
                "minio:9000",
                "minio",
                "//minio:9000",
                "http://",
                "ftp://minio",
                "http://key:s3cret@minio",
                "http://s3cret@minio",
                "http://minio/?token=s3cret",
                "http://minio/#s3cret",
                "http://mi nio",
            ] {
                let why = find(&[(name, bad)]).unwrap_err();
                assert!(why.contains(name) && why.contains("https://HOST"), "{name} {bad}: {why}");
                assert!(!why.contains("s3cret"), "{why}");
            }
        }
    }

    #[test]
    fn the_more_special_name_counts_and_a_conflict_with_the_other_one_is_an_error() {
        let [s3, all, own] = ALL;
        let text =
            |variables: &[(&str, &str)]| find(variables).map(|found| found.map(|of| of.text().to_owned()));
        assert_eq!(text(&[]), Ok(None));
        let (a, b) = ("http://127.0.0.1:1", "https://elsewhere");
        assert_eq!(text(&[(s3, a), (all, b)]), Ok(Some(a.into())));
        assert_eq!(text(&[(s3, a), (own, a)]), Ok(Some(a.into())));
        for name in [s3, all] {
            let why = text(&[(own, a), (name, b)]).unwrap_err();
            assert!(why.contains(own) && why.contains(name) && why.contains("unset"), "{why}");
        }
    }

    #[test]
    fn plain_http_leaves_the_host_only_if_allowed() {
        let of = |text: &str| find(&[(ALL[0], text)]).unwrap().unwrap();
        for near in [
            "http://127.0.0.1:5000",
            "http://localhost",
            "http://[::1]:9000/x",
            "http://127.8.8.8",
            "http://127.1",
        ] {
            assert!(of(near).is_loopback() && of(near).is_protected(), "{near}");
        }
        for far in [
            "http://10.0.0.1",
            "http://localhost.example",
            "http://[2001:db8::1]:9000",
            "http://127.0.0.1.far",
        ] {
            assert!(!of(far).is_loopback() && !of(far).is_protected(), "{far}");
        }
        assert!(of("https://10.0.0.1").is_protected());
        assert_eq!(of("http://far:81/x").place(), "http://far:81");
    }
}
