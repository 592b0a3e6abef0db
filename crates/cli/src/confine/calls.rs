//! System calls, by seccomp.
use linux_raw_sys::errno::EPERM;
use linux_raw_sys::general as nr;
use linux_raw_sys::ioctl::{TIOCLINUX, TIOCSTI};
use linux_raw_sys::net::{AF_INET, AF_INET6, AF_NETLINK, AF_UNIX};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::env::consts::ARCH;

/// Calls that fail with EPERM. A call is on the list if it starts a program, reaches into other processes, changes namespaces, mounts or
/// settings of the machine, or opens an interface of the kernel that no command needs. All others pass: a list of permitted calls would
/// break with the next version of a C library.
const REFUSED: [u32; 51] = [
    // Programs.
    nr::__NR_execve,
    nr::__NR_execveat,
    // Other processes.
    nr::__NR_ptrace,
    nr::__NR_process_vm_readv,
    nr::__NR_process_vm_writev,
    nr::__NR_process_madvise,
    nr::__NR_kcmp,
    nr::__NR_pidfd_getfd,
    // Namespaces and mounts.
    nr::__NR_unshare,
    nr::__NR_setns,
    nr::__NR_mount,
    nr::__NR_umount2,
    nr::__NR_pivot_root,
    nr::__NR_chroot,
    nr::__NR_move_mount,
    nr::__NR_open_tree,
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

/// Calls of io_uring: a filter does not see the operations of a ring.
const RINGS: [u32; 3] = [nr::__NR_io_uring_setup, nr::__NR_io_uring_register, nr::__NR_io_uring_enter];

/// Conditions of refusal by the number of a call; without any it is refused always.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses them to all threads. The error names the missing restriction.
pub fn restrict(network: bool, rings: bool) -> Result<(), String> {
    let rings = if rings { &[] } else { &RINGS[..] };
    apply(rules(network, rings))
}

/// Refuses to make or change rings to all threads. Rings that exist are used on.
pub fn restrict_rings() -> Result<(), String> {
    let [setup, register, _enter] = RINGS;
    apply(Ok(always(&[setup, register])))
}

fn apply(rules: Result<Rules, BackendError>) -> Result<(), String> {
    let program = rules.and_then(program).map_err(|e| format!("system calls: {e}"))?;
    apply_filter_all_threads(&program).map_err(|e| format!("system calls: {e}"))
}

fn program(rules: Rules) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(EPERM), arch)?.try_into()
}

fn always(calls: &[u32]) -> Rules {
    calls.iter().copied().flat_map(numbers).map(|number| (number, Vec::new())).collect()
}

fn rules(network: bool, rings: &[u32]) -> Result<Rules, BackendError> {
    let mut rules = always(&[&REFUSED, rings].concat());
    for number in numbers(nr::__NR_socket) {
        rules.insert(number, sockets(network)?);
    }
    for number in numbers(nr::__NR_ioctl) {
        let input = [TIOCSTI, TIOCLINUX].map(|command| only(1, SeccompCmpOp::Eq, command));
        rules.insert(number, input.into_iter().collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// Sockets that connect to nothing but servers on the network and services of this machine that resolve names; none without network.
fn sockets(network: bool) -> Result<Vec<SeccompRule>, BackendError> {
    if !network {
        return Ok(Vec::new());
    }
    let families = [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK];
    let others = families.map(|family| condition(0, SeccompCmpOp::Ne, family));
    Ok(vec![SeccompRule::new(others.into_iter().collect::<Result<_, _>>()?)?])
}

fn only(argument: u8, operator: SeccompCmpOp, value: u32) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![condition(argument, operator, value)?])
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u32) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value.into())
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
