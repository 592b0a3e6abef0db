//! SQLite in each of its journal modes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};

use super::{Program, Worker};
use crate::paths::{run, tool};

/// A journal mode.
struct Sqlite {
    mode: &'static str,
    /// What SQLite needs to keep a transaction through a power cut in that mode; none where it does not promise to.
    durable: Option<&'static str>,
}

/// All journal modes. Two of them keep no journal on the disk: there only the file system is checked.
pub fn modes() -> Vec<Box<dyn Program>> {
    let all = [
        ("delete", Some("extra")),
        ("truncate", Some("extra")),
        ("persist", Some("extra")),
        ("wal", Some("full")),
        ("memory", None),
        ("off", None),
    ];
    all.into_iter().map(|(mode, durable)| Box::new(Sqlite { mode, durable }) as Box<dyn Program>).collect()
}

/// Feeds one transaction after the other; each is acknowledged by its number.
const WORK: &str = r#"
n=$3
{ echo "PRAGMA journal_mode=$1; PRAGMA synchronous=$2;"
  while :; do
    n=$((n+1))
    echo "BEGIN; INSERT INTO t VALUES($n, randomblob(abs(random())%6000)); UPDATE total SET n=n+1; DELETE FROM t WHERE n%7=0 AND n<$n-50; COMMIT; SELECT $n;"
  done
} 2>/dev/null | stdbuf -oL sqlite3 -bail "$4" 2>/dev/null
"#;

fn database(dir: &Path) -> PathBuf {
    dir.join("db")
}

fn query(dir: &Path, sql: &str) -> Result<String> {
    let program = tool("sqlite3", "sqlite3")?;
    Ok(run(Command::new(program).arg("-bail").arg(database(dir)).arg(sql))?.trim().to_owned())
}

impl Program for Sqlite {
    fn name(&self) -> String {
        format!("sqlite {}", self.mode)
    }

    fn size(&self) -> u32 {
        256
    }

    fn prepare(&mut self, dir: &Path) -> Result<()> {
        let sql = "CREATE TABLE t(n INTEGER PRIMARY KEY, x BLOB); CREATE INDEX i ON t(x);
                   CREATE TABLE total(n); INSERT INTO total VALUES(0);";
        query(dir, &format!("PRAGMA journal_mode={}; PRAGMA synchronous=extra; {sql}", self.mode))?;
        run(Command::new("sync").arg(dir)).map(drop)
    }

    fn work(&mut self, dir: &Path, from: u64) -> Result<Worker> {
        let sync = self.durable.unwrap_or("full");
        let mut command = Command::new("bash");
        command.args(["-c", WORK, "work", self.mode, sync, &from.to_string()]).arg(database(dir));
        Worker::start(&mut command, Vec::new())
    }

    /// A transaction ends with the journal's removal, for which the directory is synced. SQLite takes a directory that cannot be
    /// opened for synced.
    fn keeps_late(&self) -> bool {
        self.mode != "delete"
    }

    fn verify(&mut self, dir: &Path, acknowledged: u64) -> Result<u64> {
        if self.durable.is_none() {
            // Such a database may be damaged by any crash: a new one for the next round.
            std::fs::remove_file(database(dir))?;
            self.prepare(dir)?;
            return Ok(0);
        }
        let found = query(dir, "PRAGMA integrity_check;")?;
        ensure!(found == "ok", "integrity_check: {found}");
        let counts = query(dir, "SELECT n FROM total; SELECT coalesce(max(n), 0) FROM t;")?;
        let numbers: Vec<u64> = counts.lines().filter_map(|l| l.parse().ok()).collect();
        let [total, last] = numbers[..] else { bail!("no counts in {counts}") };
        ensure!(total == last, "{total} transactions and {last} rows");
        ensure!(last >= acknowledged, "{acknowledged} acknowledged, {last} there");
        Ok(last)
    }
}
