//! PostgreSQL with page checksums, under pgbench.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Program, Worker};
use crate::paths::run;

/// Where Debian keeps the servers, one directory for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
const USER: &str = "postgres";
/// Recovery and start, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Postgres {
    bin: PathBuf,
    uid: u32,
    gid: u32,
    /// For the socket, outside the mount.
    socket: PathBuf,
}

/// Inserts one row after the other; each is acknowledged by its number.
const WORK: &str = r#"
n=$2
while :; do n=$((n+1)); echo "INSERT INTO done VALUES($n);"; echo "SELECT $n;"; done 2>/dev/null |
"$1"/psql -X -q -At -h "$3" -v ON_ERROR_STOP=1 postgres 2>/dev/null
"#;

/// Every index agrees with its table.
const AMCHECK: &str = "CREATE EXTENSION IF NOT EXISTS amcheck;
SELECT count(bt_index_check(c.oid, true)) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'btree' AND c.relpersistence = 'p' AND i.indisvalid;";
/// The sums that pgbench keeps equal.
const SUMS: &str =
    "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM pgbench_branches)
AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches)
AND coalesce((SELECT sum(delta) FROM pgbench_history), 0) = (SELECT sum(bbalance) FROM pgbench_branches);";

impl Postgres {
    pub fn new() -> Result<Self> {
        let mut versions: Vec<PathBuf> = fs::read_dir(VERSIONS)
            .context("no PostgreSQL; install it (Debian package: postgresql)")?
            .filter_map(|e| e.ok().map(|e| e.path().join("bin")))
            .filter(|bin| bin.join("postgres").is_file())
            .collect();
        versions.sort();
        let bin = versions.pop().context("no PostgreSQL server; install it (Debian package: postgresql)")?;
        let id = |flag: &str| -> Result<u32> {
            run(Command::new("id").args([flag, USER]))?.trim().parse().context("an id")
        };
        let (uid, gid) = (id("-u")?, id("-g")?);
        let socket = std::env::temp_dir().join(format!("segno-kills-{}", std::process::id()));
        fs::create_dir_all(&socket)
            .and_then(|()| chown(&socket, Some(uid), Some(gid)))
            .context("a directory for the socket")?;
        Ok(Self { bin, uid, gid, socket })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.uid(self.uid).gid(self.gid).current_dir("/").env("HOME", &self.socket);
        command
    }

    fn start(&self, dir: &Path) -> Result<Child> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.socket.join("log"))?;
        let begun = Instant::now();
        // A backend of the server that was killed may hold the shared memory for a moment.
        while begun.elapsed() < PATIENCE {
            let mut server = self
                .command("postgres")
                .arg("-D")
                .arg(dir.join("pg"))
                .arg("-k")
                .arg(&self.socket)
                .args(["-c", "listen_addresses=", "-c", "max_wal_size=64MB", "-c", "shared_buffers=16MB"])
                .stdout(log.try_clone()?)
                .stderr(log.try_clone()?)
                .spawn()
                .context("starting postgres")?;
            while server.try_wait()?.is_none() {
                if self.query("SELECT 1").is_ok() {
                    return Ok(server);
                }
                if begun.elapsed() > PATIENCE {
                    server.kill()?;
                }
                sleep(Duration::from_millis(100));
            }
            sleep(Duration::from_millis(300));
        }
        let log = fs::read_to_string(self.socket.join("log")).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(12).collect();
        bail!("postgres does not start:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"))
    }

    fn query(&self, sql: &str) -> Result<String> {
        let mut command = self.command("psql");
        command
            .args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-h"])
            .arg(&self.socket)
            .args(["-c", sql, USER]);
        Ok(run(&mut command)?.trim().to_owned())
    }

    fn stop(&self, dir: &Path, mut server: Child) -> Result<()> {
        run(self.command("pg_ctl").args(["stop", "-s", "-m", "fast", "-D"]).arg(dir.join("pg")))?;
        server.wait().context("waiting for postgres")?;
        Ok(())
    }
}

impl Program for Postgres {
    fn name(&self) -> String {
        "postgresql".into()
    }

    fn size(&self) -> u32 {
        1024
    }

    fn prepare(&mut self, dir: &Path) -> Result<()> {
        chown(dir, Some(self.uid), Some(self.gid))?;
        run(self.command("initdb").args(["-k", "-A", "trust", "-D"]).arg(dir.join("pg")))?;
        let server = self.start(dir)?;
        run(self.command("pgbench").args(["-i", "-q", "-h"]).arg(&self.socket).arg(USER))?;
        self.query("CREATE TABLE done(n bigint PRIMARY KEY)")?;
        self.stop(dir, server)
    }

    fn work(&mut self, dir: &Path, from: u64) -> Result<Worker> {
        let server = self.start(dir)?;
        let load = self
            .command("pgbench")
            .args(["-n", "-c", "2", "-T", "60", "-h"])
            .arg(&self.socket)
            .arg(USER)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting pgbench")?;
        let mut command = Command::new("bash");
        command.uid(self.uid).gid(self.gid).current_dir("/");
        command.args(["-c", WORK, "work"]).arg(&self.bin).arg(from.to_string()).arg(&self.socket);
        Worker::start(&mut command, vec![load, server])
    }

    fn verify(&mut self, dir: &Path, acknowledged: u64) -> Result<u64> {
        let server = self.start(dir)?;
        let numbers = self.query("SELECT coalesce(max(n), 0), count(*) FROM done")?;
        let (last, count) = numbers.split_once('|').context("two numbers")?;
        let (last, count): (u64, u64) = (last.parse()?, count.parse()?);
        ensure!(
            last >= acknowledged && count == last,
            "{acknowledged} acknowledged, {count} there up to {last}"
        );
        let sums = self.query(SUMS)?;
        ensure!(sums == "t", "the sums of pgbench differ");
        self.query(AMCHECK).context("amcheck")?;
        self.stop(dir, server)?;
        run(self.command("pg_checksums").args(["--check", "-D"]).arg(dir.join("pg")))?;
        Ok(last)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.socket);
    }
}
