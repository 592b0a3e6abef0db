//! `segno umount`: returns when the server has let go of the image.
use crate::document::Schema;
use crate::mount::server_process::ServerProcess;
use crate::mount::table;
use crate::out::stdout;
use crate::{image, process, show, store, tag};
use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use segno::inspect;
use segno_device::{InUseBy, Mount, Use, hold, open_storage, share_storage};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Release requests may arrive after close(2) returned, so a busy mount is retried for a moment.
const BUSY_PATIENCE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);
/// Interval of progress notes.
const QUIET: Duration = Duration::from_secs(1);
/// Users of the mount that are named.
const NAMED_USERS: usize = 5;

/// Unmount; returns when the image is clean and closed
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Where it is mounted, or the image
    #[arg(value_name = "DIR|IMAGE")]
    dir: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let mount = find(&args.dir)?;
    let dead = table::probe(&mount.dir).is_err_and(image::is_dead);
    let on_store = store::is_url(&mount.source);
    // Nothing needs to be waited for after a read-only mount of an object store, and a writer may run at the
    // same time.
    let server = (on_store && !mount.read_only).then(|| ServerProcess::of(&mount.dir)).flatten();
    unmount(&mount)?;
    table::bound(&mount).map_or(Ok(()), |place| Err(mounted_elsewhere(&mount, &place)))?;
    if on_store {
        if let Some(server) = &server {
            wait_until(&mount, || server.has_ended())?;
        }
    } else {
        wait_until(&mount, || !is_locked(&mount.source))?;
    }
    if dead {
        eprintln!("segno: note: the server had died; the next mount recovers {}", mount.source.display());
    } else if !mount.read_only {
        if on_store { ensure_sealed(&mount.source, server.as_ref())? } else { ensure_clean(&mount.source)? }
    }
    if args.json {
        let mut done = show::paths(&[("image", &mount.source), ("dir", &mount.dir)]);
        done.insert("server_died".into(), dead.into());
        Schema("segno.umount", 1).print(stdout(), &done)?;
    }
    Ok(())
}

/// Like [`ensure_clean`], of a volume on an object store, which may not answer.
fn ensure_sealed(url: &Path, server: Option<&ServerProcess>) -> Result<()> {
    let ended = match server {
        Some(server) => store::why_not_closed(url, server.pid),
        None => Err(anyhow!("its server does not run in this PID namespace, or is not accessible")),
    };
    match ended {
        Ok(None) => {}
        Ok(Some(why)) => bail!(why),
        Err(why) => eprintln!("segno: note: cannot tell whether {} was closed: {why:#}", url.display()),
    }
    Ok(())
}

/// The server is gone, and its error messages with it: the image shows whether it has finished. The checkpoints are on the first
/// device.
fn ensure_clean(path: &Path) -> Result<()> {
    let Ok(device) = open_storage(path, image::READ_ONLY) else {
        // In use by the next one already, or not readable for this user.
        return Ok(());
    };
    ensure!(
        inspect::is_clean(&*device)?,
        "{0} was closed without a clean checkpoint, perhaps after a write error; run `segno check {0}`",
        path.display()
    );
    Ok(())
}

/// The newest mount of ours at that directory, or the one of that image. The path is not resolved on disk when it cannot be: the server may
/// be dead.
fn find(dir: &Path) -> Result<Mount> {
    let at = dir.canonicalize().or_else(|_| std::path::absolute(dir))?;
    let Some(mount) = table::read()?.into_iter().rev().find(|m| m.dir == at) else {
        return of_image(dir);
    };
    if !mount.is_ours() {
        bail!("{} holds a {}, not a volume of segno: use umount(8)", dir.display(), mount.fstype);
    }
    Ok(mount)
}

/// The only mount of ours whose volume has bytes of this image.
fn of_image(image: &Path) -> Result<Mount> {
    let image = &*tag::resolve(image)?;
    let is_of = |m: &Mount| {
        m.is_ours() && (m.source == image || (!store::is_url(&m.source) && share_storage(&m.source, image)))
    };
    let mut mounts: Vec<Mount> = table::read()?.into_iter().filter(is_of).collect();
    let dirs: Vec<String> = mounts.iter().map(|m| m.dir.display().to_string()).collect();
    match (mounts.pop(), dirs.len()) {
        (Some(mount), 1) => Ok(mount),
        (Some(_), _) => {
            bail!("{} is mounted in several places: name one of {}", image.display(), dirs.join(", "))
        }
        (None, _) => bail!("nothing is mounted at {}", image.display()),
    }
}

fn unmount(mount: &Mount) -> Result<()> {
    let start = Instant::now();
    while !try_unmount(&mount.dir)? {
        if start.elapsed() >= BUSY_PATIENCE {
            return Err(busy(&mount.dir));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Whether it is done: it is not while the mount is busy.
fn try_unmount(dir: &Path) -> Result<bool> {
    if !rustix::process::geteuid().is_root() {
        return fusermount(dir);
    }
    match rustix::mount::unmount(dir, UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(true),
        Err(Errno::BUSY) => Ok(false),
        Err(e) => Err(anyhow!(e).context(format!("cannot unmount {}", dir.display()))),
    }
}

fn fusermount(dir: &Path) -> Result<bool> {
    let output = Command::new("fusermount3")
        .args(["-u", "--"])
        .arg(dir)
        .env("LC_ALL", "C")
        .output()
        .context("cannot run fusermount3; install the package fuse3, or unmount as root")?;
    let (done, message) = (output.status.success(), String::from_utf8_lossy(&output.stderr));
    ensure!(done || message.contains("busy"), "cannot unmount {}: {}", dir.display(), message.trim());
    Ok(done)
}

fn busy(dir: &Path) -> anyhow::Error {
    let users = users(dir);
    let users = if users.is_empty() {
        format!("`fuser -vm {}` shows who", dir.display())
    } else {
        format!("used by {}", users.join(", "))
    };
    anyhow!("{} is busy: close the files and leave the directories there ({users})", dir.display())
}

/// Processes with a working directory, root or open file below `dir`, as far as this user may see.
fn users(dir: &Path) -> Vec<String> {
    // This command may have been started in the directory too, but it is about to end.
    let using = process::others().filter(|pid| uses(&PathBuf::from(format!("/proc/{pid}")), dir));
    using.take(NAMED_USERS).map(process::described).collect()
}

fn uses(process: &Path, dir: &Path) -> bool {
    let below = |link: PathBuf| std::fs::read_link(link).is_ok_and(|target| target.starts_with(dir));
    let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    below(process.join("cwd")) || below(process.join("root")) || files.map(|f| f.path()).any(below)
}

/// Whether a program, the server, has the image open. If it is not readable for this user, there is nothing to wait for, and
/// other mounts and loop devices do not end.
fn is_locked(image: &Path) -> bool {
    let held = hold(image, Use::Read);
    held.is_err_and(|e| e.in_use_by().is_some_and(InUseBy::may_end))
}

fn mounted_elsewhere(mount: &Mount, place: &str) -> anyhow::Error {
    anyhow!("{} is in use until it is unmounted {place} too", mount.source.display())
}

/// The mount is removed from the table before the last checkpoint is written. The server runs on while the
/// volume is mounted elsewhere.
fn wait_until(mount: &Mount, closed: impl Fn() -> bool) -> Result<()> {
    let start = Instant::now();
    let mut next_note = QUIET;
    while !closed() {
        if start.elapsed() >= next_note {
            next_note += QUIET;
            let (source, seconds) = (mount.source.display(), start.elapsed().as_secs());
            table::in_namespace(mount).map_or(Ok(()), |place| Err(mounted_elsewhere(mount, &place)))?;
            eprintln!("segno: {source} is being written out and closed ({seconds} s)");
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
