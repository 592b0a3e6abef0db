//! The process of the broker. It ends with its server.
use super::message::{Answer, Call};
use super::spec::Spec;
use crate::bdi;
use crate::block::{self, MountType};
use crate::callers;
use crate::mount::{self, Mounted, Request, receive};
use crate::mount_id::MountId;
use crate::options::AtDeath;
use crate::system_log::{Severity, SystemLog};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::mount::UnmountFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::setsid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::thread;

/// More than a request, so that a longer one is noticed.
const RECEIVED_MAX: usize = 64;

/// The mount, once it was made.
struct Mount {
    id: MountId,
    mount_type: MountType,
}

struct Process {
    spec: Spec,
    made: Option<Mount>,
    /// The mount was requested.
    was_requested: bool,
}

/// The process that [`super::Broker::start`] starts, with its sockets as standard input and output. Returns after the server has ended.
pub(super) fn run(args: &[OsString]) -> io::Result<()> {
    // A program may pass descriptors on, which would keep its files open and its locks held.
    segno_device::close_inherited(&[]);
    // Otherwise ps(1) shows "exe", after /proc/self/exe.
    rustix::thread::set_name(c"segno-broker")?;
    let spec =
        Spec::parse(args).ok_or_else(|| io::Error::other("this is called by the server of a mount alone"))?;
    // Ctrl-C in the terminal of the server, and SIGTERM to all processes of a service, are for the server.
    let _leads_already = setsid();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    // While a mount ends, requests are served that need credentials.
    thread::Builder::new().name("callers".into()).spawn(|| callers::answer(&io::stdout()))?;
    let mut process = Process { spec, made: None, was_requested: false };
    process.serve(io::stdin().as_fd());
    process.end()
}

impl Process {
    /// Serves until the server has ended, or sends something else than a request.
    fn serve(&mut self, server: BorrowedFd<'_>) {
        let mut bytes = [0; RECEIVED_MAX];
        while let Ok((n, _)) = receive(server, &mut bytes) {
            let Some(call) = bytes.get(..n).and_then(Call::parse) else { return };
            let done = match call {
                Call::Mount => self.mount(server),
                Call::Tune { writeback, volume_bytes } => {
                    self.tune(writeback, volume_bytes);
                    reply(server, &Answer::Done, None)
                }
                Call::Detach { sync } => {
                    reply(server, &answer(self.unmount(UnmountFlags::DETACH, sync)), None)
                }
                Call::Unmount => reply(server, &answer(self.unmount(UnmountFlags::empty(), false)), None),
                Call::Ended => {
                    self.made = None;
                    return;
                }
            };
            if done.is_err() {
                return;
            }
        }
    }

    fn mount(&mut self, server: BorrowedFd<'_>) -> io::Result<()> {
        if std::mem::replace(&mut self.was_requested, true) {
            return reply(server, &answer(Err(io::Error::other("one mount was made already"))), None);
        }
        let spec = &self.spec;
        let request = Request { dir: &spec.dir, source: &spec.source, options: spec.options.clone() };
        match block::connect(&request, &spec.backing) {
            Ok((Mounted { dev, id }, mount_type)) => {
                self.made = Some(Mount { id, mount_type: mount_type.clone() });
                let sent = reply(server, &Answer::Mounted { id, mount_type }, Some(dev.as_fd()));
                // The server was killed: nobody will serve this mount.
                sent.inspect_err(|_| drop(self.unmount(UnmountFlags::DETACH, false)))
            }
            Err(e) => reply(server, &answer(Err(e)), None),
        }
    }

    /// After the server was killed: a mount that was ended by it is gone already.
    fn end(&mut self) -> io::Result<()> {
        let at_death = self.spec.at_death;
        if self.made.is_none() || at_death == AtDeath::Stay {
            return Ok(());
        }
        let ended = self.unmount(UnmountFlags::DETACH, false);
        if at_death == AtDeath::Unmount
            && let Ok(log) = SystemLog::open()
        {
            let (source, dir) = (&self.spec.source, self.spec.dir.display());
            let done = match &ended {
                Ok(()) => format!("{dir} is unmounted"),
                Err(e) => e.to_string(),
            };
            let line = format!(
                "the server of {source} was killed, by a user or for lack of memory; {done}. `segno mount {source} {dir}` mounts again and recovers"
            );
            log.line(Severity::Error, &line);
        }
        ended
    }

    fn tune(&self, writeback: bool, volume_bytes: u64) {
        // Once the mount has gone, another one may have its number.
        if let Some(made) = self.made.as_ref().filter(|made| made.id.path().is_some()) {
            bdi::tune(made.id, &made.mount_type, writeback, volume_bytes);
        }
    }

    /// Ends the mount if it is still there: not one that covers it, nor one that has taken its place.
    fn unmount(&mut self, how: UnmountFlags, sync: bool) -> io::Result<()> {
        let Some(made) = &self.made else { return Ok(()) };
        let dir = made.id.path().unwrap_or_else(|| self.spec.dir.clone());
        let cannot =
            |e: io::Error| io::Error::new(e.kind(), format!("cannot unmount {}: {e}", dir.display()));
        if MountId::at(&dir).map_err(cannot)? != made.id {
            return Err(cannot(io::Error::other("another mount is there")));
        }
        // Files that are open would lose what only the kernel has.
        let synced = if sync { mount::write_dirty_pages(&dir) } else { Ok(()) };
        mount::unmount(&dir, made.id, how).map_err(cannot)?;
        self.made = None;
        synced.map_err(|e| io::Error::other(format!("cannot write what programs have not synced: {e}")))
    }
}

fn answer(done: io::Result<()>) -> Answer {
    done.map_or_else(|e| Answer::of_failure(&e), |()| Answer::Done)
}

fn reply(server: BorrowedFd<'_>, answer: &Answer, dev: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = dev.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(server, &[IoSlice::new(&answer.to_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Backing;
    use crate::broker::message::ANSWER_MAX;
    use crate::broker::pair;
    use rustix::fd::OwnedFd;
    use rustix::net::send;
    use std::path::Path;

    fn call(server: &OwnedFd, bytes: &[u8]) -> Option<(Answer, Option<OwnedFd>)> {
        send(server, bytes, SendFlags::NOSIGNAL).ok()?;
        let mut bytes = [0; ANSWER_MAX];
        let (n, dev) = receive(server, &mut bytes).ok()?;
        Some((Answer::parse(&bytes[..n])?, dev))
    }

    fn done(server: &OwnedFd, what: Call) -> Answer {
        call(server, &what.to_bytes()).unwrap().0
    }

    /// Runs a process for a directory, as long as its server has the other socket.
    fn with_process(dir: &Path, server: impl FnOnce(OwnedFd)) {
        let (ours, theirs) = pair().unwrap();
        let spec = Spec {
            dir: dir.to_owned(),
            source: "test".into(),
            backing: Backing::Nothing("a test".into()),
            at_death: AtDeath::Stay,
            options: Vec::new(),
        };
        let mut process = Process { spec, made: None, was_requested: false };
        thread::scope(|scope| {
            scope.spawn(move || {
                process.serve(theirs.as_fd());
                drop(theirs);
            });
            server(ours);
        });
    }

    #[test]
    fn one_mount_is_made_and_ended_and_nothing_else_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let below = MountId::at(dir.path()).unwrap();
        with_process(dir.path(), |server| {
            // Nothing was mounted.
            assert_eq!(done(&server, Call::Detach { sync: true }), Answer::Done);
            assert_eq!(done(&server, Call::Tune { writeback: true, volume_bytes: 0 }), Answer::Done);
            let (answer, dev) = call(&server, &Call::Mount.to_bytes()).unwrap();
            let Answer::Mounted { id, .. } = answer else { return println!("NOT TESTED: {answer:?}") };
            assert!(dev.is_some() && id != below && MountId::at(dir.path()).unwrap() == id);
            assert!(
                matches!(done(&server, Call::Mount), Answer::Failed { why, .. } if why.contains("already"))
            );
            assert_eq!(done(&server, Call::Detach { sync: false }), Answer::Done);
            assert_eq!(MountId::at(dir.path()).unwrap(), below);
            assert!(matches!(done(&server, Call::Mount), Answer::Failed { .. }));
            assert_eq!(done(&server, Call::Detach { sync: false }), Answer::Done);
        });
    }

    /// A user who may rename a parent directory can neither make the broker unmount another mount nor prevent
    /// it from unmounting this one.
    #[test]
    fn the_mount_is_unmounted_where_it_is_now() {
        let above = tempfile::tempdir().unwrap();
        let at = |name: &str| above.path().join(name);
        [at("dir/mnt"), at("other/mnt")].iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
        with_process(&at("dir/mnt"), |server| {
            let (answer, _dev) = call(&server, &Call::Mount.to_bytes()).unwrap();
            let Answer::Mounted { id, .. } = answer else { return println!("NOT TESTED: {answer:?}") };
            std::fs::rename(at("dir"), at("moved")).unwrap();
            std::os::unix::fs::symlink(at("other"), at("dir")).unwrap();
            let held = at("dir/mnt");
            for how in [UnmountFlags::DETACH, UnmountFlags::empty()] {
                assert!(mount::unmount(&held, id, how).is_err(), "a link was followed");
            }
            assert_eq!(MountId::at(&at("moved/mnt")).unwrap(), id);
            assert_eq!(done(&server, Call::Detach { sync: false }), Answer::Done);
            assert_ne!(MountId::at(&at("moved/mnt")).unwrap(), id);
        });
    }

    #[test]
    fn whatever_is_no_request_ends_the_process() {
        let dir = tempfile::tempdir().unwrap();
        for bytes in [&[9; 10][..], &[0; 9], &[0; 11], &[0; 4096], b""] {
            with_process(dir.path(), |server| assert!(call(&server, bytes).is_none(), "{bytes:?}"));
        }
    }
}
