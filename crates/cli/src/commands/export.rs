//! `segno export`: serves a volume to a virtual machine.
use crate::completion::Completing;
use crate::confine::{ConfineOption, Confinement};
use crate::exit::usage;
use crate::mount::options::{Settings, words};
use crate::mount::volume::{Devices, absolute, log_recovery};
use crate::storage::DeviceOption;
use anyhow::{Context, Result, anyhow, bail};
use clap::builder::StringValueParser;
use segno_device::open_volume;
use segno_fuse::{AtDeath, Choice, GuestOptions, GuestServer};
use segno_virtiofs::{End, Export, Socket, Tag};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::thread;

/// Serve a volume to a virtual machine, which mounts it as virtiofs
///
/// The machine needs no F2FS. It must share its memory with this program, as QEMU does with a memory-backend-memfd that has
/// share=on. The command ends when the machine does, or with Ctrl-C, and closes the volume clean.
#[derive(clap::Args)]
pub struct Args {
    /// Mount options that do not concern the kernel of this machine, see `segno mount --help`
    #[arg(short, long, value_name = "OPTION,…", value_delimiter = ',', value_parser = Completing(StringValueParser::new(), words), hide_possible_values = true)]
    options: Vec<String>,
    /// Socket to make, to which QEMU or another program for virtual machines connects
    #[arg(long, value_name = "SOCKET")]
    vhost_user: PathBuf,
    /// Name of the device in the guest, for programs that ask this one for it; to QEMU it is given as tag=
    #[arg(long)]
    tag: Option<Tag>,
    #[command(flatten)]
    confine: ConfineOption,
    #[command(flatten)]
    devices: DeviceOption,
    /// Image file, block device, s3://BUCKET/PREFIX or file:///DIR
    image: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let mut settings = Settings::parse(&args.options, false).map_err(usage)?;
    settings.print_renamed();
    refuse_others(&settings).map_err(usage)?;
    segno_fuse::share_heap();
    let path = args.vhost_user.display();
    // A client that sees the socket may send a signal: signals are queued until the server runs.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let socket = Socket::bind(&args.vhost_user).with_context(|| format!("cannot listen on {path}"))?;
    let image = settings.find_devices(&args.image, &args.devices)?;
    let open = || Devices::open(&absolute(&image)?, &settings, open_volume);
    // Storage on this machine is open by now; the server opens no other file of it.
    let confinement = Confinement::new(&args.confine).caches(settings.store.cache.as_deref());
    let devices = confinement.opened(&image, open)?;
    let served = devices.mount()?;
    log_recovery(&served.volume, &image);
    let guest = GuestServer::new(
        served.volume.clone(),
        GuestOptions {
            acl: settings.fuse.checks_acl(&settings.engine),
            writeback_cache: settings.fuse.writeback_cache,
            ownership: settings.fuse.ownership,
            threads: settings.fuse.threads,
        },
    );
    served.end(serve(args, guest, socket, signals))
}

/// Refuses options for the kernel of this machine.
fn refuse_others(s: &Settings) -> Result<()> {
    let others = [
        (!s.fuse.extra.is_empty(), "flags such as nodev are for mount(8) in the guest"),
        (s.fuse.allow_other, "allow_other has no meaning: all users of the guest may enter"),
        (s.fuse.fuse_only, "blk= is for mounts of this machine"),
        (s.fuse.transport != Choice::Auto, "transport= is for mounts of this machine"),
        (s.fuse.no_sched_idle, "sched_idle= is for mounts of this machine"),
        (s.fuse.at_death != AtDeath::Stay, "auto_unmount and restart=remount are for mounts of this machine"),
        (s.fuse.shutdown, "shutdown is for mounts of this machine: a guest changes nothing of the volume"),
        (s.log.is_some(), "log= is for servers in the background: redirect standard error"),
    ];
    match others.into_iter().find(|(given, _)| *given) {
        Some((_, why)) => bail!("{why}"),
        None => Ok(()),
    }
}

fn serve(args: &Args, guest: GuestServer, socket: Socket, mut signals: Signals) -> Result<()> {
    let path = args.vhost_user.display();
    let export = Export::new(guest, socket, args.tag);
    let stopper = export.stopper();
    thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    })?;
    eprintln!("segno: {} is ready for a virtual machine at {path}", args.image.display());
    match export.run()? {
        End::Disconnected | End::Stopped => Ok(()),
        End::Failed(why) => Err(anyhow!("the virtual machine at {path} was cut off: {why}")),
    }
}
