//! URLs of volumes. Credentials come from the environment alone.
use crate::credentials::{Credentials, Renewed};
use crate::{Result, StoreError};
use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ClientOptions, RetryConfig};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A request without an answer for so long has failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Url {
    /// `s3://BUCKET/PREFIX`
    S3 {
        /// Bucket.
        bucket: String,
        /// Prefix of all objects.
        prefix: String,
    },
    /// `file:///DIR`
    Directory(String),
}

impl Url {
    /// Parses a URL; `None` if the text is none, and so names a file or a device.
    #[must_use]
    pub fn parse(text: &str) -> Option<Result<Self>> {
        let bad = |why: &str| Err(StoreError::Url { url: text.to_owned(), why: why.to_owned() });
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let prefix = prefix.trim_end_matches('/');
            return Some(match (bucket, prefix) {
                ("", _) => bad("a bucket is needed, as s3://BUCKET/PREFIX"),
                _ if bucket.contains(['@', ':']) => {
                    bad("credentials do not belong here: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
                }
                (_, "") => bad("a prefix is needed, as s3://BUCKET/PREFIX"),
                _ => Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() }),
            });
        }
        let dir = text.strip_prefix("file://")?;
        Some(if dir.starts_with('/') {
            Ok(Self::Directory(dir.to_owned()))
        } else {
            bad("an absolute path is needed, as file:///DIR")
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
        let builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
        let protected = is_protected(&endpoint);
        if !insecure && !protected {
            return Err(self.error(format!(
                "{} is plain HTTP to another host, where anyone between can read and change the data: use https, or -o insecure",
                redacted(&endpoint)
            )));
        }
        let client = ClientOptions::new()
            .with_allow_http(is_plain(&endpoint))
            .with_timeout(REQUEST_TIMEOUT)
            .with_connect_timeout(CONNECT_TIMEOUT);
        // Requests are repeated here, where an answer that an object exists is understood.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let builder = builder.with_client_options(client).with_retry(retry);
        let builder = builder.with_unsigned_payload(protected);
        let credentials = credentials(&builder).map(Arc::new);
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
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Directory(dir) => write!(f, "file://{dir}"),
        }
    }
}

/// Those of the environment and of the shared credentials file.
fn credentials(builder: &AmazonS3Builder) -> Option<Credentials> {
    let of = |key| builder.get_config_value(&key);
    let key_id = of(AmazonS3ConfigKey::AccessKeyId).zip(of(AmazonS3ConfigKey::SecretAccessKey));
    let token = of(AmazonS3ConfigKey::Token);
    let fixed = key_id.map(|(key_id, secret_key)| AwsCredential { key_id, secret_key, token });
    let named = std::env::var_os("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    let home = std::env::home_dir().map(|home| home.join(".aws/credentials"));
    // The server of a mount has another working directory.
    let file = std::path::absolute(named.or(home).unwrap_or_default()).unwrap_or_default();
    let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".into());
    Credentials::new(fixed, file, profile)
}

fn host(endpoint: &str) -> &str {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

/// An endpoint without user, password and path.
fn redacted(endpoint: &str) -> String {
    format!("http://{}", host(endpoint))
}

fn is_loopback(endpoint: &str) -> bool {
    let host = host(endpoint);
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether it is without TLS.
fn is_plain(endpoint: &str) -> bool {
    endpoint.starts_with("http://")
}

/// Whether nothing can change what is sent on its way. Then its SHA-256, a fifth of the time of sequential writes to MinIO, is not
/// signed.
fn is_protected(endpoint: &str) -> bool {
    !is_plain(endpoint) || is_loopback(endpoint)
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
        for bad in ["s3://", "s3://b", "s3://b/", "s3://key:secret@b/p", "file://d"] {
            assert!(Url::parse(bad).unwrap().is_err(), "{bad}");
        }
    }

    #[test]
    fn plain_http_leaves_the_host_only_if_allowed() {
        for near in ["http://127.0.0.1:5000", "http://localhost", "http://[::1]:9000/x", "http://127.8.8.8"] {
            assert!(is_loopback(near), "{near}");
        }
        for far in [
            "http://10.0.0.1",
            "http://localhost.example",
            "http://[2001:db8::1]:9000",
            "http://127.0.0.1@far",
        ] {
            assert!(!is_loopback(far), "{far}");
        }
        assert_eq!(redacted("http://key:secret@far/x"), "http://far");
    }

    #[test]
    fn content_is_signed_where_it_could_be_changed() {
        // No endpoint is AWS itself, by TLS.
        for protected in ["", "https://10.0.0.1", "http://127.0.0.1:9000"] {
            assert!(is_protected(protected), "{protected}");
        }
        assert!(!is_protected("http://10.0.0.1:9000"));
    }
}
