//! System calls, by seccomp.
use linux_raw_sys::errno::{ENOSYS, EPERM};
use linux_raw_sys::general as nr;
use linux_raw_sys::ioctl::{FICLONE, FICLONERANGE, TIOCLINUX, TIOCSTI};
use linux_raw_sys::net::{AF_INET, AF_INET6, AF_NETLINK};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::env::consts::ARCH;

/// Calls that fail with EPERM. A call is on the list if it starts a program, reaches into other processes, changes namespaces, mounts or
/// settings of the machine, or opens an interface of the kernel that no command needs. All others pass: a list of permitted calls would
/// break with the next version of a C library.
const REFUSED: &[u32] = &[
    // Programs.
    nr::__NR_execve,
    nr::__NR_execveat,
    // Other processes.
    nr::__NR_ptrace,
    nr::__NR_process_vm_readv,
    nr::__NR_process_vm_writev,
    nr::__NR_process_madvise,
    nr::__NR_process_mrelease,
    nr::__NR_kcmp,
    nr::__NR_pidfd_getfd,
    nr::__NR_migrate_pages,
    nr::__NR_move_pages,
    nr::__NR_ioprio_set,
    nr::__NR_setpriority,
    nr::__NR_shmget,
    nr::__NR_shmat,
    nr::__NR_shmctl,
    nr::__NR_msgget,
    nr::__NR_msgsnd,
    nr::__NR_msgrcv,
    nr::__NR_msgctl,
    nr::__NR_semget,
    nr::__NR_semop,
    nr::__NR_semtimedop,
    nr::__NR_semctl,
    nr::__NR_mq_open,
    nr::__NR_mq_unlink,
    // Namespaces and mounts.
    nr::__NR_unshare,
    nr::__NR_setns,
    nr::__NR_mount,
    nr::__NR_umount2,
    nr::__NR_pivot_root,
    nr::__NR_chroot,
    nr::__NR_move_mount,
    nr::__NR_open_tree,
    OPEN_TREE_ATTR,
    nr::__NR_fsopen,
    nr::__NR_fsconfig,
    nr::__NR_fsmount,
    nr::__NR_fspick,
    nr::__NR_mount_setattr,
    // The machine.
    nr::__NR_reboot,
    nr::__NR_kexec_load,
    nr::__NR_kexec_file_load,
    nr::__NR_init_module,
    nr::__NR_finit_module,
    nr::__NR_delete_module,
    nr::__NR_swapon,
    nr::__NR_swapoff,
    nr::__NR_acct,
    nr::__NR_quotactl,
    nr::__NR_quotactl_fd,
    nr::__NR_settimeofday,
    nr::__NR_clock_settime,
    nr::__NR_clock_adjtime,
    nr::__NR_adjtimex,
    nr::__NR_sethostname,
    nr::__NR_setdomainname,
    nr::__NR_syslog,
    nr::__NR_vhangup,
    nr::__NR_personality,
    // Interfaces of the kernel.
    nr::__NR_bpf,
    nr::__NR_perf_event_open,
    nr::__NR_add_key,
    nr::__NR_request_key,
    nr::__NR_keyctl,
    nr::__NR_userfaultfd,
    nr::__NR_open_by_handle_at,
    nr::__NR_fanotify_init,
    nr::__NR_lookup_dcookie,
    nr::__NR_nfsservctl,
];

/// Changes of attributes by path, which Landlock does not restrict. Those of an open file pass: it was opened with the right to.
const ATTRIBUTES: &[u32] = &[
    nr::__NR_fchmodat,
    nr::__NR_fchmodat2,
    nr::__NR_fchownat,
    nr::__NR_setxattr,
    nr::__NR_lsetxattr,
    SETXATTRAT,
    nr::__NR_removexattr,
    nr::__NR_lremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// Calls that newer machines do not have, as *at calls replace them.
#[cfg(target_arch = "x86_64")]
const OLDER: &[u32] =
    &[nr::__NR_chmod, nr::__NR_chown, nr::__NR_lchown, nr::__NR_utime, nr::__NR_utimes, nr::__NR_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[u32] = &[];

/// Calls that start processes. Threads come from clone, which has conditions.
#[cfg(target_arch = "x86_64")]
const FORKS: &[u32] = &[nr::__NR_fork, nr::__NR_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: &[u32] = &[];

/// Numbers that are the same on all machines and newer than the headers.
const SETXATTRAT: u32 = 463;
const REMOVEXATTRAT: u32 = 466;
const OPEN_TREE_ATTR: u32 = 467;
const FILE_SETATTR: u32 = 469;

/// Calls of io_uring: a filter does not see the operations of a ring.
const RINGS: [u32; 3] = [nr::__NR_io_uring_setup, nr::__NR_io_uring_register, nr::__NR_io_uring_enter];

/// Calls on a thread, whose number is an argument, and the place of that argument. The calling thread has 0.
const OF_A_THREAD: [(u32, u8); 3] =
    [(nr::__NR_prlimit64, 0), (nr::__NR_sched_setattr, 0), (nr::__NR_sched_setparam, 0)];
/// Those by which threads of a server place each other.
const PLACEMENT: [(u32, u8); 2] = [(nr::__NR_sched_setaffinity, 0), (nr::__NR_sched_setscheduler, 0)];

/// Types of the commands of ioctl that change or stop file systems.
const FILE_SYSTEMS: [u32; 3] = [0x58, 0x94, 0xf5];

/// System calls that a filter permits beyond the common ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct PermittedCalls {
    /// Connections to servers.
    pub network: bool,
    /// Making rings of io_uring.
    pub rings: bool,
    /// Changing the attributes of files by path.
    pub attributes: bool,
    /// Placing other threads on processors, and setting their policies.
    pub placement: bool,
}

/// Conditions of refusal by the number of a call; without any it is refused always.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses them to all threads. The error names the missing restriction.
pub fn restrict(permitted: PermittedCalls) -> Result<(), String> {
    // A C library without clone3 starts threads with clone, whose flags a filter can check.
    let clone3 = numbers(nr::__NR_clone3).into_iter().map(|number| (number, Vec::new())).collect();
    apply(program(clone3, ENOSYS))?;
    apply(rules(permitted).and_then(|rules| program(rules, EPERM)))
}

/// The rings that are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// Further ones.
    New,
    /// Further rings, and changes of rings that exist.
    All,
}

/// Refuses rings to all threads. Existing rings stay usable.
pub fn restrict_rings(rings: Rings) -> Result<(), String> {
    let [setup, register, _enter] = RINGS;
    let refused: &[u32] = if rings == Rings::All { &[setup, register] } else { &[setup] };
    apply(program(always(refused), EPERM))
}

fn apply(program: Result<BpfProgram, BackendError>) -> Result<(), String> {
    let program = program.map_err(|e| format!("system calls: {e}"))?;
    apply_filter_all_threads(&program).map_err(|e| format!("system calls: {e}"))
}

fn program(rules: Rules, error: u32) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error), arch)?.try_into()
}

fn always(calls: &[u32]) -> Rules {
    calls.iter().copied().flat_map(numbers).map(|number| (number, Vec::new())).collect()
}

fn rules(permitted: PermittedCalls) -> Result<Rules, BackendError> {
    let mut rules = always(&[REFUSED, FORKS].concat());
    if !permitted.rings {
        rules.extend(always(&RINGS));
    }
    let mut insert = |call, refused: Vec<SeccompRule>| {
        rules.extend(numbers(call).into_iter().map(|number| (number, refused.clone())));
    };
    insert(nr::__NR_socket, sockets(permitted.network)?);
    insert(nr::__NR_clone, processes()?);
    insert(nr::__NR_ioctl, commands()?);
    let placement = if permitted.placement { &[] } else { &PLACEMENT[..] };
    for &(call, argument) in OF_A_THREAD.iter().chain(placement) {
        insert(call, vec![only(argument, SeccompCmpOp::Ne, 0)?]);
    }
    if !permitted.attributes {
        // Without a path it is the times of an open file.
        let named = SeccompCondition::new(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
        insert(nr::__NR_utimensat, vec![SeccompRule::new(vec![named])?]);
        rules.extend(always(&[ATTRIBUTES, OLDER].concat()));
    }
    Ok(rules)
}

/// Sockets that connect to nothing but servers on the network; none without network.
fn sockets(network: bool) -> Result<Vec<SeccompRule>, BackendError> {
    if !network {
        return Ok(Vec::new());
    }
    // The C library lists the network interfaces, by netlink, when it resolves names.
    let families = [AF_INET, AF_INET6, AF_NETLINK];
    let others = families.map(|family| condition(0, SeccompCmpOp::Ne, family));
    Ok(vec![SeccompRule::new(others.into_iter().collect::<Result<_, _>>()?)?])
}

/// Processes, and threads in other namespaces.
fn processes() -> Result<Vec<SeccompRule>, BackendError> {
    let namespaces = [
        nr::CLONE_NEWNS,
        nr::CLONE_NEWCGROUP,
        nr::CLONE_NEWUTS,
        nr::CLONE_NEWIPC,
        nr::CLONE_NEWUSER,
        nr::CLONE_NEWPID,
        nr::CLONE_NEWNET,
    ];
    let namespaces = namespaces.map(|bit| only(0, SeccompCmpOp::MaskedEq(bit.into()), bit));
    let process = only(0, SeccompCmpOp::MaskedEq(nr::CLONE_THREAD.into()), 0);
    namespaces.into_iter().chain([process]).collect()
}

/// Input to terminals, and all that changes a file system but copies of extents.
fn commands() -> Result<Vec<SeccompRule>, BackendError> {
    let input = [TIOCSTI, TIOCLINUX].map(|command| only(1, SeccompCmpOp::Eq, command));
    let changes = FILE_SYSTEMS.map(|kind| {
        let copies = [FICLONE, FICLONERANGE].map(|command| condition(1, SeccompCmpOp::Ne, command));
        let of_kind = condition(1, SeccompCmpOp::MaskedEq(0xff00), kind << 8);
        SeccompRule::new(copies.into_iter().chain([of_kind]).collect::<Result<_, _>>()?)
    });
    input.into_iter().chain(changes).collect()
}

fn only(argument: u8, operator: SeccompCmpOp, value: u32) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![condition(argument, operator, value)?])
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u32) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value.into())
}

/// Numbers of the calls that are refused with any arguments.
#[cfg(test)]
pub(super) fn refused(permitted: PermittedCalls) -> Result<std::collections::BTreeSet<i64>, BackendError> {
    Ok(rules(permitted)?.into_iter().filter(|(_, when)| when.is_empty()).map(|(number, _)| number).collect())
}

/// All numbers of a call: x86_64 has a second table, x32, in which some calls have another number.
pub(super) fn numbers(call: u32) -> Vec<i64> {
    const X32: u32 = 1 << 30;
    const OWN: [(u32, u32); 7] = [
        (nr::__NR_ioctl, 514),
        (nr::__NR_execve, 520),
        (nr::__NR_ptrace, 521),
        (nr::__NR_kexec_load, 528),
        (nr::__NR_process_vm_readv, 539),
        (nr::__NR_process_vm_writev, 540),
        (nr::__NR_execveat, 545),
    ];
    if ARCH != "x86_64" {
        return vec![call.into()];
    }
    let own = OWN.into_iter().filter(|(of, _)| *of == call).map(|(_, number)| number | X32);
    [call, call | X32].into_iter().chain(own).map(i64::from).collect()
}
