//! Stores that answer what no store should, and settings of this host that do not fit a store.
use super::s3::{Answer, Asked, S3, entry};
use parking_lot::Mutex;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A program may map no more than this, in KiB.
const MEMORY: u64 = 1 << 20;
const URL: &str = "s3://bucket/v";

/// A directory with a bucket, and a home without keys.
struct Bench {
    dir: tempfile::TempDir,
}

/// The messages and the exit code of a command; `None` if a signal ended it.
#[derive(Debug)]
struct RunOutput {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        for dir in ["bucket", "home/.aws", "mnt"] {
            fs::create_dir_all(bench.path(dir)).unwrap();
        }
        bench
    }

    /// With a volume that has a file in a data object, and was written by two mounts.
    fn with_volume() -> Self {
        let bench = Self::new();
        let store = bench.serve(|_, answer| answer);
        let file = bench.path("file");
        fs::write(&file, vec![7; 1 << 20]).unwrap();
        for args in
            [vec!["mkfs", "-q", "--size", "1G", URL], vec!["put", URL, file.to_str().unwrap(), "/file"]]
        {
            let said = bench.run(&store, &args);
            assert_eq!(said.code, Some(0), "{said:?}");
        }
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn serve(&self, change: impl Fn(&Asked, Answer) -> Answer + Send + Sync + 'static) -> S3 {
        S3::serve(&self.path("bucket"), change)
    }

    fn run(&self, store: &S3, args: &[&str]) -> RunOutput {
        let key = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s3cr3t")];
        self.run_with(args, &[&[("AWS_ENDPOINT_URL_S3", store.endpoint.as_str())][..], &key].concat())
    }

    /// Runs the command with these variables and no other ones of AWS.
    fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> RunOutput {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\""))
            .arg(env!("CARGO_BIN_EXE_segno"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.args(args).env("HOME", self.path("home")).envs(variables.iter().copied());
        let done = command.output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        RunOutput { code: done.status.code(), out: text(&done.stdout), err: text(&done.stderr) }
    }

    /// The newest object of a kind.
    fn newest(&self, kind: &str) -> PathBuf {
        let dir = fs::read_dir(self.path("bucket/v").join(kind)).unwrap();
        let mut epochs: Vec<PathBuf> = dir.map(|entry| entry.unwrap().path()).collect();
        epochs.sort();
        let last = epochs.pop().unwrap();
        if last.is_file() {
            return last;
        }
        let mut objects: Vec<PathBuf> =
            fs::read_dir(last).unwrap().map(|entry| entry.unwrap().path()).collect();
        objects.sort();
        objects.pop().unwrap()
    }

    /// As a writer that was killed leaves it.
    fn unseal(&self) {
        fs::remove_file(self.newest("log")).unwrap();
    }
}

/// One message, and nothing of the runtime.
#[track_caller]
fn is_message(said: &RunOutput, case: &str) {
    assert!(said.code.is_some_and(|code| code != 0), "{case}: {said:?}");
    for bad in ["panicked", "memory allocation", "s3cr3t", "<?xml", "<Error>"] {
        assert!(!said.err.contains(bad), "{case}: {said:?}");
    }
    assert!(said.err.lines().count() <= 3, "{case}: {said:?}");
}

#[test]
fn a_volume_on_a_store_is_read_and_checked() {
    let bench = Bench::with_volume();
    let store = bench.serve(|_, answer| answer);
    assert_eq!(bench.run(&store, &["ls", URL]).out, "file\n");
    assert_eq!(bench.run(&store, &["cat", URL, "/file"]).out.len(), 1 << 20);
    assert!(bench.run(&store, &["check", URL]).out.ends_with("clean\n"));
}

/// How the answer to a read is spoiled.
type Corruption = (&'static str, fn(Answer) -> Answer);

const SPOILS: [Corruption; 4] = [
    ("a length of 1 TiB", |answer| Answer {
        length: Some((1u64 << 40).to_string()),
        endless: 1 << 30,
        ..answer
    }),
    ("no length and no end", |answer| Answer { length: Some(String::new()), endless: 1 << 30, ..answer }),
    ("half of it", |mut answer| {
        answer.body.truncate(answer.body.len() / 2);
        answer
    }),
    ("garbage", |mut answer| {
        answer.body.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 7919) as u8);
        answer
    }),
];

/// Every kind of answer that a command reads: bytes that are taken have a bound, and the error names the object.
#[test]
fn every_answer_has_a_bound() {
    let bench = Bench::with_volume();
    let sealed = |kind: &str| kind != "epoch/";
    for kind in ["volume", "map/", "log/", "data/", "list", "error", "epoch/"] {
        if !sealed(kind) {
            bench.unseal();
        }
        for (how, spoil) in SPOILS {
            let store = bench.serve(move |asked, answer| {
                let is_it = match kind {
                    "list" => asked.is_list(),
                    "error" if asked.key == "v/volume" => {
                        return spoil(Answer::error("400 Bad Request", "InvalidRequest"));
                    }
                    _ => asked.method == "GET" && asked.key.starts_with(&format!("v/{kind}")),
                };
                if is_it { spoil(answer) } else { answer }
            });
            let args: &[&str] =
                if sealed(kind) { &["cat", URL, "/file"] } else { &["put", URL, "/etc/passwd", "/x"] };
            let case = format!("{kind}, {how}");
            let said = bench.run(&store, args);
            let sent = *store.sent.lock();
            assert!(sent < 48 << 20, "{case}: {sent} bytes were taken");
            // The last object of the log may be one that was cut off.
            if kind == "log/" && said.code == Some(0) && matches!(how, "half of it" | "garbage") {
                continue;
            }
            is_message(&said, &case);
            let name = match kind {
                "list" => "cannot list ",
                "error" => "volume",
                other => other,
            };
            assert!(said.err.contains(name), "{case}: {said:?}");
        }
    }
}

/// The bitwise definition of CRC-32C.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// A record of 39 bytes, with the right checksum, took 137 GB; an object of 4 TiB, its size.
#[test]
fn sizes_in_objects_take_no_memory() {
    let bench = Bench::with_volume();
    let url = format!("file://{}", bench.path("bucket/v").display());
    let volume = bench.path("bucket/v/volume");
    let record = fs::read(&volume).unwrap();
    let mut large = record[..record.len() - 4].to_vec();
    // Magic, identity, blocks of a zone.
    large[8 + 16 + 2..][..4].fill(0xff);
    large.extend_from_slice(&crc32c(&large).to_le_bytes());
    assert_eq!(crc32c(&record[..record.len() - 4]).to_le_bytes(), record[record.len() - 4..]);
    fs::write(&volume, large).unwrap();
    let said = bench.run_with(&["cat", &url, "/file"], &[]);
    is_message(&said, "zones");
    assert!(said.err.contains("object volume is damaged"), "{said:?}");
    fs::write(&volume, &record).unwrap();
    for kind in ["map", "log", "volume"] {
        let path = if kind == "volume" { volume.clone() } else { bench.newest(kind) };
        let before = fs::read(&path).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4 << 40).unwrap();
        let said = bench.run_with(&["cat", &url, "/file"], &[]);
        fs::write(&path, before).unwrap();
        if kind == "map" {
            // The previous map and the commits after it give the same state.
            assert_eq!((said.code, said.out.len()), (Some(0), 1 << 20), "{}", said.err);
            continue;
        }
        is_message(&said, kind);
        assert!(said.err.contains(kind) && said.err.contains("longer than it can be"), "{said:?}");
    }
}

/// Pages without end; minutes with `ENDLESS=1`.
#[test]
fn a_listing_without_end_is_abandoned() {
    if std::env::var_os("ENDLESS").is_none() {
        return;
    }
    let bench = Bench::with_volume();
    let store = bench.serve(|asked, answer| {
        if !asked.is_list() {
            return answer;
        }
        let entries: String = (0..40_000).map(|n| entry(&format!("v/data/00000001/{n:016x}"), 1)).collect();
        let more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>";
        let body = format!("<ListBucketResult>{more}{entries}</ListBucketResult>");
        Answer { status: "200 OK", body: body.into_bytes(), ..Answer::default() }
    });
    let said = bench.run(&store, &["cat", URL, "/file"]);
    is_message(&said, "listing");
    assert!(said.err.contains("cannot list ") && said.err.contains("names"), "{said:?}");
}

#[test]
fn a_redirect_is_not_followed() {
    let bench = Bench::with_volume();
    let elsewhere = bench.serve(|_, answer| answer);
    let target = elsewhere.endpoint.clone();
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let target = target.clone();
        let store = bench.serve(move |asked, _| {
            let to = format!("{target}/bucket/{}", asked.key);
            Answer { status, headers: vec![("Location", to)], ..Answer::default() }
        });
        for args in [&["cat", URL, "/file"][..], &["store", "probe", URL], &["mkfs", "--size", "1G", URL]] {
            let said = bench.run(&store, args);
            is_message(&said, status);
            assert!(
                said.err.contains("redirects to 127.0.0.1") && said.err.contains("AWS_REGION"),
                "{said:?}"
            );
            assert!(store.asked.lock().len() <= 3, "{status}: {:?}", store.asked.lock());
            store.asked.lock().clear();
        }
    }
    assert!(elsewhere.asked.lock().is_empty(), "{:?}", elsewhere.asked.lock());
}

/// Each ends at once: the second request is for another key's turn.
#[test]
fn refusals_end_a_command_at_once_with_the_next_step() {
    let bench = Bench::with_volume();
    for (status, code, next) in [
        ("403 Forbidden", "InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"),
        ("403 Forbidden", "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
        ("403 Forbidden", "AccessDenied", "the right to get, put, list and delete"),
        ("403 Forbidden", "RequestTimeTooSkewed", "the clock of this host"),
        ("400 Bad Request", "ExpiredToken", "session token"),
        ("400 Bad Request", "AuthorizationHeaderMalformed", "AWS_REGION"),
        ("400 Bad Request", "InvalidRequest", "InvalidRequest"),
        ("403 Forbidden", "", "AWS_ACCESS_KEY_ID"),
    ] {
        let store = bench.serve(move |_, _| Answer::error(status, code));
        for args in [&["cat", URL, "/file"][..], &["put", URL, "/etc/passwd", "/x"], &["store", "probe", URL]]
        {
            let said = bench.run(&store, args);
            let case = format!("{args:?} {status} {code}");
            is_message(&said, &case);
            assert!(said.err.contains(next) && said.err.contains(status), "{case}: {said:?}");
            assert!(!said.err.contains("waiting for the store"), "{case}: {said:?}");
            assert!(store.asked.lock().len() <= 4, "{case}: {:?}", store.asked.lock());
            store.asked.lock().clear();
        }
    }
}

/// With and without an XML body.
#[test]
fn a_store_without_conditional_creation_is_named_and_can_be_accepted() {
    for (status, code) in [
        ("501 Not Implemented", "NotImplemented"),
        ("501 Not Implemented", ""),
        ("400 Bad Request", "InvalidArgument"),
        ("400 Bad Request", ""),
    ] {
        let bench = Bench::new();
        let store = bench.serve(
            move |asked, answer| {
                if asked.is_conditional() { Answer::error(status, code) } else { answer }
            },
        );
        let case = format!("{status} {code}");
        for args in [&["store", "probe", URL][..], &["mkfs", "-q", "--size", "1G", URL]] {
            let said = bench.run(&store, args);
            is_message(&said, &case);
            assert!(
                said.err.contains("conditional creation") && said.err.contains("unfenced"),
                "{case}: {said:?}"
            );
        }
        let said = bench.run(&store, &["mkfs", "-q", "--unfenced", "--size", "1G", URL]);
        assert_eq!(said.code, Some(0), "{case}: {said:?}");
        store.asked.lock().clear();
        let said = bench.run(&store, &["put", URL, "/etc/passwd", "/x"]);
        assert_eq!(said.code, Some(0), "{case}: {said:?}");
        assert!(bench.run(&store, &["check", URL]).out.ends_with("clean\n"), "{case}");
        let asked = store.asked.lock();
        assert!(!asked.iter().any(|line| line.contains("if-none-match")), "{case}: {asked:?}");
    }
}

#[test]
fn an_endpoint_that_is_none_is_refused_by_every_command() {
    let bench = Bench::new();
    let mnt = bench.path("mnt");
    let commands: [&[&str]; 7] = [
        &["cat", URL, "/file"],
        &["ls", URL],
        &["check", URL],
        &["mkfs", "--size", "1G", URL],
        &["mount", URL, mnt.to_str().unwrap()],
        &["store", "info", URL],
        &["store", "probe", URL],
    ];
    let key = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s3cr3t")];
    for name in ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"] {
        for value in ["", "minio:9000", "http://", "http://k:s3cr3t@127.0.0.1:1", "http://10.255.255.1:9"] {
            for args in commands {
                let said = bench.run_with(args, &[&[(name, value)][..], &key].concat());
                let case = format!("{args:?} {name}={value}");
                is_message(&said, &case);
                let expected = if value.contains("10.255") { "plain HTTP" } else { name };
                assert!(said.err.contains(expected), "{case}: {said:?}");
            }
        }
    }
    let both = [("AWS_ENDPOINT", "http://127.0.0.1:9"), ("AWS_ENDPOINT_URL_S3", "http://10.255.255.1:9")];
    for args in commands {
        let said = bench.run_with(args, &[&both[..], &key].concat());
        is_message(&said, "two endpoints");
        assert!(said.err.contains("different endpoints"), "{said:?}");
    }
}

#[test]
fn a_secret_in_a_url_is_repeated_by_no_command() {
    let bench = Bench::new();
    let path = |name: &str| bench.path(name).to_str().unwrap().to_owned();
    fs::write(path("file"), b"x").unwrap();
    let (file, mnt, image) = (path("file"), path("mnt"), path("image"));
    for url in ["s3://key:s3cr3t@bucket/v", "s3://key:a/s3cr3t@bucket/v", "s3://s3cr3t@bucket/v"] {
        let commands: [&[&str]; 13] = [
            &["cat", url, "/file"],
            &["ls", url],
            &["info", url],
            &["check", url],
            &["get", url, "/file", &image],
            &["put", url, &file, "/file"],
            &["stat", url, "/file"],
            &["mkfs", "--size", "1G", url],
            &["mount", url, &mnt],
            &["store", "info", url],
            &["store", "probe", url],
            &["store", "drain", "--cache", &mnt, url],
            &["store", "export", url, &image],
        ];
        for args in commands {
            let said = bench.run_with(args, &[]);
            is_message(&said, &format!("{args:?}"));
            assert!(
                said.err.contains("AWS_ACCESS_KEY_ID") && !said.err.contains("key:"),
                "{args:?}: {said:?}"
            );
        }
    }
}

/// Keys, region and endpoint of a profile; without one, what to set, and no service of the network is waited for.
#[test]
fn profiles_are_read_and_a_missing_key_is_said() {
    let bench = Bench::with_volume();
    let store = bench.serve(|_, answer| answer);
    let cat = ["ls", URL];
    let config = format!(
        "[profile dev]\nregion = eu-test-7\naws_access_key_id = devkey\naws_secret_access_key = s3cr3t\nservices = local\n\
         [services local]\ns3 =\n  endpoint_url = {}\n",
        store.endpoint
    );
    fs::write(bench.path("home/.aws/config"), config).unwrap();
    let said = bench.run_with(&cat, &[("AWS_PROFILE", "dev")]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "file\n"), "{said:?}");
    let endpoint = ("AWS_ENDPOINT_URL", store.endpoint.as_str());
    // Nothing listens there.
    let metadata = ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9");
    for variables in [
        &[endpoint, ("AWS_PROFILE", "absent")][..],
        &[endpoint, ("AWS_EC2_METADATA_DISABLED", "true")],
        &[endpoint, metadata],
    ] {
        store.asked.lock().clear();
        let said = bench.run_with(&cat, variables);
        is_message(&said, &format!("{variables:?}"));
        assert!(said.err.contains("AWS_ACCESS_KEY_ID") && said.err.contains("AWS_PROFILE"), "{said:?}");
        for file in ["home/.aws/credentials", "home/.aws/config"] {
            assert!(said.err.contains(bench.path(file).to_str().unwrap()), "{file} was searched: {said:?}");
        }
        assert!(!said.err.contains("waiting"), "{said:?}");
        assert!(store.asked.lock().is_empty(), "no request without a key");
    }
    let spoiled = [endpoint, ("AWS_ACCESS_KEY_ID", "a b"), ("AWS_SECRET_ACCESS_KEY", "s3cr3t")];
    let said = bench.run_with(&cat, &spoiled);
    is_message(&said, "a key with a space");
    assert!(said.err.contains("AWS_ACCESS_KEY_ID"), "{said:?}");
}

/// The store takes another key from one moment on, and the file is replaced later.
#[test]
fn a_mount_goes_on_with_the_key_of_a_file_that_was_replaced() {
    if !super::can_mount() {
        return;
    }
    let bench = Bench::with_volume();
    let (accepted, denied) = (Arc::new(Mutex::new("old")), Arc::new(AtomicUsize::new(0)));
    let (key, count) = (accepted.clone(), denied.clone());
    let store = bench.serve(move |asked, answer| {
        let signed = format!("Credential={}/", key.lock());
        if asked.headers.get("authorization").is_some_and(|by| by.contains(&signed)) {
            return answer;
        }
        count.fetch_add(1, Ordering::Relaxed);
        Answer::error("403 Forbidden", "InvalidAccessKeyId")
    });
    let file = bench.path("keys");
    let replace = |key: &str| {
        let new = file.with_extension("new");
        let text = format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = s3cr3t\n");
        fs::write(&new, text).unwrap();
        fs::rename(new, &file).unwrap();
    };
    replace("old");
    let variables = [
        ("AWS_ENDPOINT_URL_S3", store.endpoint.as_str()),
        ("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap()),
    ];
    let mnt = bench.path("mnt");
    let run = |args: &[&str]| assert_eq!(bench.run_with(args, &variables).code, Some(0), "{args:?}");
    run(&["mount", URL, mnt.to_str().unwrap()]);
    *accepted.lock() = "new";
    let written = mnt.join("written");
    let writer = thread::spawn(move || {
        fs::write(&written, b"kept").unwrap();
        fs::File::open(&written).unwrap().sync_all()
    });
    while denied.load(Ordering::Relaxed) == 0 {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!writer.is_finished(), "fsync waits for a key");
    replace("new");
    writer.join().unwrap().unwrap();
    run(&["umount", mnt.to_str().unwrap()]);
    assert_eq!(bench.run_with(&["cat", URL, "/written"], &variables).out, "kept");
    assert!(bench.run_with(&["check", URL], &variables).out.ends_with("clean\n"));
}

/// Root's mount with a cache that another user prepared.
#[test]
fn a_cache_of_another_user_is_refused_and_nothing_of_it_touched() {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    if !rustix::process::geteuid().is_root() {
        println!("NOT TESTED: an owner needs root");
        return;
    }
    let bench = Bench::with_volume();
    let url = format!("file://{}", bench.path("bucket/v").display());
    let target = bench.path("target");
    fs::write(&target, b"kept").unwrap();
    let drain =
        |cache: &Path| bench.run_with(&["store", "drain", "--cache", cache.to_str().unwrap(), &url], &[]);
    for (name, owner, mode) in [("lock", 1234, 0o755), ("segno-cache.new", 1234, 0o700), ("pieces", 0, 0o777)]
    {
        let cache = bench.path(&format!("cache-{name}"));
        fs::create_dir(&cache).unwrap();
        symlink(&target, cache.join(name)).unwrap();
        chown(&cache, Some(owner), None).unwrap();
        fs::set_permissions(&cache, fs::Permissions::from_mode(mode)).unwrap();
        let said = drain(&cache);
        is_message(&said, name);
        assert!(said.err.contains(cache.to_str().unwrap()), "{said:?}");
        assert_eq!(fs::read(&target).unwrap(), b"kept", "{name}");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1, "{name}: a refusal writes nothing");
    }
    let own = bench.path("own");
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(drain(&own).code, Some(0));
    assert_eq!(own.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
}
