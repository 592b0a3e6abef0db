//! URLs of volumes. Credentials come from the environment and the shared files of the AWS programs alone.
use crate::wire::credentials::{Credentials, is_sendable, none_found};
use crate::wire::endpoint::Endpoint;
use crate::wire::profile::Profile;
use crate::wire::renewal::Renewed;
use crate::wire::transport::Connector;
use crate::{Result, StoreError};
use derive_more::Display;
use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ClientOptions, RetryConfig};
use std::sync::Arc;

/// Where a volume is.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
pub enum Url {
    /// `s3://BUCKET/PREFIX`
    #[display("s3://{bucket}/{prefix}")]
    S3 {
        /// Bucket.
        bucket: String,
        /// Prefix of all objects.
        prefix: String,
    },
    /// `file:///DIR`
    #[display("file://{_0}")]
    Directory(String),
}

impl Url {
    /// Parses a URL; `None` if the text is a path of a file or a device.
    #[must_use]
    pub fn parse(text: &str) -> Option<Result<Self>> {
        let bad = |url: &str, why: &str| Err(StoreError::Url { url: url.to_owned(), why: why.to_owned() });
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let prefix = prefix.trim_end_matches('/');
            let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
            return Some(match (bucket, prefix) {
                // A secret may have slashes, so none of the text is repeated.
                _ if bucket.contains(['@', ':']) => bad(
                    "s3://…",
                    "credentials do not belong here: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and give s3://BUCKET/PREFIX",
                ),
                ("", _) => bad(text, "a bucket is needed, as s3://BUCKET/PREFIX"),
                _ if !bucket.bytes().all(is_part)
                    || !bucket.starts_with(|c: char| c.is_ascii_alphanumeric()) =>
                {
                    bad(text, "the name of a bucket has letters, digits, '-', '.' and '_'")
                }
                (_, "") => bad(text, "a prefix is needed, as s3://BUCKET/PREFIX"),
                _ => Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() }),
            });
        }
        let dir = text.strip_prefix("file://")?;
        Some(if dir.starts_with('/') {
            Ok(Self::Directory(dir.to_owned()))
        } else {
            bad(text, "an absolute path is needed, as file:///DIR")
        })
    }

    /// The store, and the prefix in it.
    pub fn open(&self, insecure: bool) -> Result<(Arc<dyn ObjectStore>, Path)> {
        match self {
            Self::S3 { bucket, prefix } => self.s3(bucket, prefix, insecure),
            Self::Directory(dir) => self.directory(dir),
        }
    }

    fn error(&self, why: impl ToString) -> StoreError {
        StoreError::Url { url: self.to_string(), why: why.to_string() }
    }

    fn directory(&self, dir: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        let store = LocalFileSystem::new_with_prefix(dir).map_err(|e| self.error(e))?;
        Ok((Arc::new(store.with_fsync(true)), Path::default()))
    }

    fn s3(&self, bucket: &str, prefix: &str, insecure: bool) -> Result<(Arc<dyn ObjectStore>, Path)> {
        // A second volume in the process finds it installed.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let env = |name: &str| std::env::var(name).ok();
        let profile = Profile::of_env(env);
        let endpoint = Endpoint::find(env, &profile).map_err(|why| self.error(why))?;
        let is_protected = endpoint.as_ref().is_none_or(Endpoint::is_protected);
        if let Some(plain) = endpoint.as_ref().filter(|_| !insecure && !is_protected) {
            return Err(self.error(format!(
                "{} is plain HTTP to another host, where anyone between can read and change the data: use https, or -o insecure",
                plain.place()
            )));
        }
        let client = ClientOptions::new().with_allow_http(endpoint.as_ref().is_some_and(Endpoint::is_plain));
        // Requests are repeated here, where an answer that an object exists is understood.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let direct = endpoint.as_ref().is_some_and(Endpoint::is_loopback);
        let builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_client_options(client)
            .with_retry(retry)
            .with_unsigned_payload(is_protected)
            .with_http_connector(Connector { direct });
        let builder = self.place(builder, endpoint.as_ref(), &profile)?;
        let credentials = credentials(&builder, profile).map_err(|why| self.error(why))?.map(Arc::new);
        let builder = match &credentials {
            Some(credentials) => builder.with_credentials(credentials.clone()),
            None => builder,
        };
        let store = builder.build().map_err(|e| self.error(e))?;
        let prefix = Path::parse(prefix).map_err(|e| self.error(e))?;
        Ok(match credentials {
            Some(credentials) => (Arc::new(Renewed { store, credentials }), prefix),
            None => (Arc::new(store), prefix),
        })
    }

    /// Sets endpoint and region. The client's variable for S3 takes precedence over its other variables, so
    /// only the checked endpoint is used.
    fn place(
        &self,
        builder: AmazonS3Builder,
        endpoint: Option<&Endpoint>,
        profile: &Profile,
    ) -> Result<AmazonS3Builder> {
        let of = |key| builder.get_config_value(&key);
        let is_other =
            of(AmazonS3ConfigKey::Endpoint).or_else(|| of(AmazonS3ConfigKey::S3Endpoint)).is_some();
        let region = of(AmazonS3ConfigKey::Region).filter(|region| !region.is_empty());
        let builder = match endpoint {
            Some(endpoint) => builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint.text()),
            None if is_other => {
                return Err(self.error("the names of AWS_ENDPOINT_URL variables are in capitals"));
            }
            None => builder,
        };
        let region = region.or_else(|| profile.region()).unwrap_or_else(|| "us-east-1".to_owned());
        if !region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(self.error("AWS_REGION is no name of a region: it has letters, digits and '-'"));
        }
        Ok(builder.with_region(region))
    }
}

/// Credentials of the environment and of the profile; `None` if the client gets them from a web identity, a
/// container or an instance.
fn credentials(builder: &AmazonS3Builder, profile: Profile) -> Result<Option<Credentials>, String> {
    let of = |key| builder.get_config_value(&key).filter(|value| !value.is_empty());
    let key = of(AmazonS3ConfigKey::AccessKeyId).zip(of(AmazonS3ConfigKey::SecretAccessKey));
    let token = of(AmazonS3ConfigKey::Token);
    let fixed = key.map(|(key_id, secret_key)| AwsCredential { key_id, secret_key, token });
    if fixed.as_ref().is_some_and(|key| !is_sendable(key)) {
        return Err("a key of the environment has characters that no key has: check AWS_ACCESS_KEY_ID, \
                    AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
            .into());
    }
    if let Some(found) = Credentials::new(fixed, profile.clone()) {
        return Ok(Some(found));
    }
    let others = [
        AmazonS3ConfigKey::WebIdentityTokenFile,
        AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
        AmazonS3ConfigKey::ContainerCredentialsFullUri,
    ];
    let is_true = |value: Option<String>| value.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if is_true(of(AmazonS3ConfigKey::SkipSignature)) || others.into_iter().any(|key| of(key).is_some()) {
        return Ok(None);
    }
    if profile.is_named || is_true(std::env::var("AWS_EC2_METADATA_DISABLED").ok()) {
        return Err(none_found(&profile, ""));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        let s3 = |bucket: &str, prefix: &str| Url::S3 { bucket: bucket.into(), prefix: prefix.into() };
        assert_eq!(Url::parse("s3://b/p/q/").unwrap().unwrap(), s3("b", "p/q"));
        assert_eq!(Url::parse("file:///d").unwrap().unwrap(), Url::Directory("/d".into()));
        for path in ["/dev/sda", "disk.img", "s3:", "https://b/p"] {
            assert!(Url::parse(path).is_none(), "{path}");
        }
        for bad in
            ["s3://", "s3://b", "s3://b/", "s3://b c/p", "s3://b%2f/p", "s3://../p", "s3://b?x/p", "file://d"]
        {
            assert!(Url::parse(bad).unwrap().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_secret_in_a_url_is_not_repeated() {
        for bad in [
            "s3://key:secret@b/p",
            "s3://key:se/secret@b/p",
            "s3://key:secret/p",
            "s3://secret@b/p",
            "s3://:secret@",
        ] {
            let why = Url::parse(bad).unwrap().unwrap_err().to_string();
            assert!(
                why.contains("AWS_ACCESS_KEY_ID") && !why.contains("secret") && !why.contains("key:"),
                "{bad}: {why}"
            );
        }
    }
}
