//! The plan: the errors, their repairs, and every write, in order.
use crate::action::Action;
use crate::blocks::BlockSet;
use crate::error::{RepairError, Result};
use crate::layout::Places;
use crate::pack::{self, PackInput};
use crate::resolve::{self, Tree};
use crate::state::State;
use crate::tables::{self, Allocated};
use crate::volume::Volume;
use crate::writer::Plan;
use crate::zones::Zones;
use crate::{
    copies, data_blocks, evidence, fields, finish, inventory, layout, logs, paths, quota, rebuild, symlink,
    tree, xattr,
};
use segno_check::{CheckError, CheckOptions, Kind, Report, check};
use segno_device::{BlockDevice, FailedRead, Overlay};
use segno_format::checkpoint::RawCheckpoint;
use segno_format::node::RawNode;
use segno_format::pack::PackHead;
use segno_format::{Block, BlockAddr, Features, SegNo};
use segno_layout::Superblocks;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How to repair.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Whether files that lost their name return under it if it is free; they are named by number in
    /// lost+found otherwise.
    pub restore_names: bool,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { restore_names: true }
    }
}

/// The log that a mount would replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// The roll-forward chain, if there is one.
    Chain,
    /// The metadata journal after the volume's end.
    Journal,
}

/// Mounts and unmounts a volume in memory to replay it; the error is the reason why it cannot be replayed.
pub type Replay<'r> = &'r mut dyn FnMut(Arc<Overlay>) -> std::result::Result<(), String>;

/// Plans the repair of a volume.
///
/// Pending records and fsyncs are replayed on a volume that was repaired in memory: on a damaged one, replay
/// might overwrite blocks in use. The plan is carried out in memory and checked. If any error would remain,
/// no plan is returned.
pub fn plan(
    device: &Arc<dyn BlockDevice>,
    pending: Pending,
    replay: Replay<'_>,
    options: PlanOptions,
) -> Result<Plan> {
    let (settled, undecided) = copies::settled(device)?;
    let mut plan = unless_evidence_is_lost(&*settled, plan_settled(&settled, pending, replay, options))?;
    if undecided {
        let text = "the superblocks differ, in the names of devices or the id of the volume, and nothing tells which is right: the first is kept";
        plan.actions.push(Action::new(true, None, text));
    }
    copies::write_first(device, &settled, &mut plan)?;
    Ok(plan)
}

/// Refuses a plan with losses if the SIT and another table have lost blocks: a rescue may find those files.
fn unless_evidence_is_lost(device: &dyn BlockDevice, planned: Result<Plan>) -> Result<Plan> {
    let doubtful = match &planned {
        Ok(plan) => plan.has_loss(),
        Err(e) => matches!(e, RepairError::Refused(_)),
    };
    let Some(vol) = doubtful.then(|| Volume::open(device)).transpose()?.flatten() else { return planned };
    let Some(other) = evidence::lost_with_sit(&vol)? else { return planned };
    Err(RepairError::refused(format!(
        "SIT and {other} have both lost blocks, so nothing proves which nodes and blocks are in use, and a repair would give up \
         files: `segno rescue IMAGE DIRECTORY` finds and copies them"
    )))
}

/// Plans with superblocks that do not contradict each other.
fn plan_settled(
    device: &Arc<dyn BlockDevice>,
    pending: Pending,
    replay: Replay<'_>,
    options: PlanOptions,
) -> Result<Plan> {
    let chain = layout::chain(&open(&**device)?)?;
    let fsynced = chain.iter().any(|(_, block)| block.view::<RawNode>().footer.is_fsync());
    if pending == Pending::Chain && !fsynced {
        return plan_as_is(device, options, false);
    }
    if open(&**device)?.sb.features.contains(Features::BLKZONED) {
        return Err(RepairError::refused(
            "a damaged zoned volume is not repaired while a crash left something to replay: `segno rescue` copies the files",
        ));
    }
    let (overlay, actions) = before_replay(device, options)?;
    let overlay = Arc::new(overlay);
    let replayed = replay(overlay.clone());
    // A read error is not damage: the chain is not given up for it.
    if let Some(FailedRead { addr, count, source }) = overlay.take_failed() {
        return Err(CheckError::Io { addr, count, source }.into());
    }
    match (replayed, pending) {
        (Ok(()), _) => of_replayed(device, &overlay, actions, options),
        (Err(why), Pending::Journal) => Err(RepairError::refused(format!(
            "the journal cannot be replayed ({why}); `segno journal discard` gives up what is in it"
        ))),
        (Err(why), _) => {
            let mut plan = plan_as_is(device, options, true)?;
            let text =
                format!("what was fsynced after the last checkpoint cannot be replayed ({why}) and is lost");
            plan.actions.push(Action::new(true, None, text));
            Ok(plan)
        }
    }
}

/// The volume as of its checkpoint; superblocks alone if they are all that is damaged and no new checkpoint
/// is needed.
fn plan_as_is(device: &Arc<dyn BlockDevice>, options: PlanOptions, checkpoint: bool) -> Result<Plan> {
    let original = open(&**device)?;
    let before = check(&**device, &CheckOptions::default(), &mut |_| {})?;
    // Readers that compare only versions would take a pack ahead of the one in force for valid.
    if !checkpoint && !needs_tables(&before) && !is_ahead(&original)? {
        let mut out = Plan::default();
        superblocks(&original, &original, &mut out)?;
        if verify(device, &out).is_ok() {
            return Ok(out);
        }
    }
    let (mut out, tree) = decided(&original, &original, &Written::default(), options, false)?;
    describe(&mut out, &tree);
    if !is_newest(&original)? {
        let text = "the newest checkpoint is damaged; the volume is repaired as of the one before";
        out.actions.push(Action::new(true, None, text));
    }
    superblocks(&original, &original, &mut out)?;
    verify(device, &out)?;
    Ok(out)
}

/// Plans the repair of the volume as it is after the replay.
fn of_replayed(
    device: &Arc<dyn BlockDevice>,
    overlay: &Overlay,
    actions: Vec<Action>,
    options: PlanOptions,
) -> Result<Plan> {
    let (original, view) = (open(&**device)?, open(overlay)?);
    let written = written(&original, overlay)?;
    let (mut out, _) = decided(&original, &view, &written, options, false)?;
    out.actions.splice(0..0, actions);
    superblocks(&original, &view, &mut out)?;
    verify(device, &out)?;
    Ok(out)
}

/// All writes except to superblocks, and the resulting names.
fn decided(
    original: &Volume<'_>,
    view: &Volume<'_>,
    written: &Written,
    options: PlanOptions,
    keep_chain: bool,
) -> Result<(Plan, Tree)> {
    let mut state = State::new(view);
    decide_blocks(&mut state)?;
    let tree = resolve::run(&mut state, options.restore_names)?;
    let steps = build(&mut state, original, &tree, written, keep_chain)?;
    Ok((Plan { actions: state.actions, steps }, tree))
}

/// Whether no valid pack is newer than the one that is used.
fn is_newest(original: &Volume<'_>) -> Result<bool> {
    let start = original.geo.pack_addr(1 - original.pack.index.min(1));
    // After a power cut the end is that of an older pack.
    let is_complete = PackHead::read(start, |at| original.device.block(at))?.is_ok();
    Ok(!(is_ahead(original)? && is_complete))
}

/// Whether the other pack begins with a version that is newer than the one that is used.
fn is_ahead(original: &Volume<'_>) -> Result<bool> {
    let start = original.geo.pack_addr(1 - original.pack.index.min(1));
    let block = original.device.block(start)?;
    let version = block.view::<RawCheckpoint>().checkpoint_ver.get();
    let ahead = version.wrapping_sub(original.pack.cp().checkpoint_ver.get()).cast_signed() > 0;
    Ok(ahead && RawCheckpoint::verify(&block, start.0.into()).is_ok())
}

/// Says what was done, with paths.
fn describe(plan: &mut Plan, tree: &Tree) {
    paths::name(&mut plan.actions, tree);
    if plan.actions.is_empty() {
        plan.actions.push(whole("the tables and counters of the volume were wrong"));
    }
}

fn whole(text: &str) -> Action {
    Action::new(false, None, text)
}

fn open(device: &dyn BlockDevice) -> Result<Volume<'_>> {
    let vol = Volume::open(device)?.ok_or_else(|| {
        RepairError::refused("no superblock, or no checkpoint pack, is good enough to repair the volume from")
    })?;
    let refused = copies::refused(vol.sb.features);
    if refused.is_empty() {
        return Ok(vol);
    }
    let names = refused.names().join(", ");
    Err(RepairError::refused(match () {
        () if refused == Features::RO => {
            "read-only images are not repaired: make the image anew from its source".to_owned()
        }
        () => format!("volumes with {names} cannot be repaired; `segno rescue` copies the files"),
    }))
}

/// Whether a check has found something that a repair would change.
#[must_use]
pub fn is_repairable(report: &Report) -> bool {
    let repairable = |kind| !is_matter_of_opinion(kind) && kind != Kind::ClusterData;
    report.problems.iter().any(|p| repairable(p.kind)) || report.errors > report.data_errors
}

/// Kernels disagree about the folded form of some names.
fn is_matter_of_opinion(kind: Kind) -> bool {
    kind == Kind::FoldedHash
}

/// Whether the damage is not in the superblocks alone.
fn needs_tables(report: &Report) -> bool {
    let of_superblock = |kind| {
        matches!(kind, Kind::Superblock | Kind::SuperblockCopies | Kind::SuperblockStale | Kind::ErrorRecord)
    };
    report.problems.iter().any(|p| !of_superblock(p.kind) && !is_matter_of_opinion(p.kind))
}

/// The volume repaired as of its checkpoint, in memory, with the roll-forward chain or the journal still to
/// be replayed.
fn before_replay(device: &Arc<dyn BlockDevice>, options: PlanOptions) -> Result<(Overlay, Vec<Action>)> {
    let vol = open(&**device)?;
    let (mut plan, tree) = decided(&vol, &vol, &Written::default(), options, true)?;
    describe(&mut plan, &tree);
    superblocks(&vol, &vol, &mut plan)?;
    Ok((plan.on_overlay(device)?, plan.actions))
}

/// Blocks that a replay wrote.
#[derive(Default)]
struct Written {
    /// Blocks of the main area.
    main: Vec<BlockAddr>,
    /// Segments whose summary was written.
    summaries: BTreeSet<SegNo>,
}

/// Collects the blocks that the replay wrote. None of them may have belonged to a file before.
fn written(original: &Volume<'_>, overlay: &Overlay) -> Result<Written> {
    let geo = &original.geo;
    let all: Vec<u32> = overlay.written().into_iter().filter_map(|a| u32::try_from(a).ok()).collect();
    let main: Vec<_> = all.iter().copied().map(BlockAddr).filter(|a| geo.in_main(*a)).collect();
    let ssa = geo.ssa_blkaddr..geo.ssa_blkaddr.saturating_add(geo.segment_count_main);
    let summaries = all.iter().filter(|a| ssa.contains(a)).map(|a| SegNo(a - geo.ssa_blkaddr)).collect();
    let written = Written { main, summaries };
    let mut state = State::new(original);
    decide_blocks(&mut state)?;
    let allocated = Allocated::of(&state, &BTreeSet::new())?;
    match written.main.iter().find(|a| allocated.contains(**a)) {
        None => Ok(written),
        Some(addr) => Err(RepairError::refused(format!(
            "what a crash left cannot be replayed: block {addr} would be overwritten, which a file uses though the SIT has it as free"
        ))),
    }
}

/// Nodes, fields, pointers and blocks.
fn decide_blocks(state: &mut State<'_>) -> Result<()> {
    inventory::run(state)?;
    rebuild::fixed(state)?;
    fields::run(state)?;
    tree::run(state)?;
    xattr::run(state)?;
    data_blocks::run(state)?;
    symlink::run(state)
}

/// All writes except to superblocks.
fn build(
    state: &mut State<'_>,
    original: &Volume<'_>,
    tree: &Tree,
    written: &Written,
    keep_chain: bool,
) -> Result<Vec<Vec<(u64, Block)>>> {
    let totals = finish::run(state, tree)?;
    quota::run(state, &totals)?;
    let totals = finish::run(state, tree)?;
    let mut taken: BlockSet = layout::taken(state, original)?;
    let zones = Zones::of(original)?;
    let mut places = Places::new(state, original, &mut taken, &zones);
    let moved = layout::run(state, &mut places)?;
    let mut whole = written.summaries.clone();
    whole.extend(original.log_segments().chain(state.vol.log_segments()));
    let allocated = Allocated::of(state, &whole)?;
    let logs = logs::choose(state, &allocated, &zones)?;
    whole.extend(logs.positions.iter().map(|p| p.seg));
    let allocated = Allocated::of(state, &whole)?;
    mixed(&allocated, original)?;
    let (sit, nat) =
        (tables::sit(state, original, &allocated, &logs)?, tables::nat(state, original, &allocated)?);
    let input =
        PackInput { allocated: &allocated, logs: &logs, totals: &totals, sit: &sit, nat: &nat, keep_chain };
    let pack = pack::build(state, original, &input)?;
    let mut first: Vec<(u64, Block)> = moved.into_iter().map(|(a, b)| (a.0.into(), b)).collect();
    for addr in written.main.iter().filter(|a| allocated.contains(**a)) {
        first.push((addr.0.into(), state.vol.device.block(*addr)?));
    }
    first.extend(sit.iter().chain(&nat).map(|f| (f.addr.0.into(), f.block.clone())));
    for seg in allocated.summaries.keys().copied().filter(|s| s.0 < original.geo.segment_count_main) {
        let addr = original.geo.ssa_addr(seg);
        let block = Block(zerocopy::transmute!(allocated.summary_block(state, seg)?));
        if logs.log_of(seg).is_none() && original.device.block(addr)?.0 != block.0 {
            first.push((addr.0.into(), block));
        }
    }
    first.sort_by_key(|(addr, _)| *addr);
    first.dedup_by_key(|(addr, _)| *addr);
    let other = 1 - original.pack.index.min(1);
    let index = if keep_chain { original.pack.index } else { other };
    let start = u64::from(original.geo.pack_addr(index).0);
    let mut pack: Vec<(u64, Block)> = (start..).zip(pack).collect();
    let last = pack.pop().into_iter().collect();
    Ok(vec![first, pack, last])
}

/// A segment has nodes or data.
fn mixed(allocated: &Allocated, original: &Volume<'_>) -> Result<()> {
    let both = |seg: &SegNo| !allocated.nodes.is_empty_in(*seg) && !allocated.data.is_empty_in(*seg);
    match original.geo.segments().find(both) {
        None => Ok(()),
        Some(seg) => Err(RepairError::refused(format!("segment {seg} has nodes and data"))),
    }
}

/// The copies of the superblock: as the one in force, without the records of errors.
fn superblocks(original: &Volume<'_>, view: &Volume<'_>, out: &mut Plan) -> Result<()> {
    let mut wanted = view.sb.raw;
    wanted.s_stop_reason.fill(0);
    wanted.s_errors.fill(0);
    if view.sb.features.contains(Features::CASEFOLD) {
        // The only encoding there is.
        wanted.s_encoding.set(1);
    }
    if !view.sb.features.contains(Features::QUOTA_INO) {
        wanted.qf_ino.fill(zerocopy::little_endian::U32::ZERO);
    }
    wanted.seal();
    let writes = Superblocks::load(original.device)?.update(&wanted);
    if !writes.is_empty() {
        out.actions.push(whole("a copy of the superblock was damaged, old, or had records of errors"));
    }
    out.steps.extend(writes.into_iter().map(|(copy, block)| vec![(copy.0.into(), block)]));
    Ok(())
}

/// Carries out the plan in memory and checks the result.
fn verify(device: &Arc<dyn BlockDevice>, plan: &Plan) -> Result<()> {
    let after = check(&plan.on_overlay(device)?, &CheckOptions::default(), &mut |_| {})?;
    if !is_repairable(&after) {
        return Ok(());
    }
    let problems = after.problems.iter().filter(|p| !is_matter_of_opinion(p.kind));
    let (count, first) =
        (problems.clone().count(), problems.take(3).map(ToString::to_string).collect::<Vec<_>>());
    Err(RepairError::refused(format!("{count} finding(s) cannot be repaired yet: {}", first.join("; "))))
}
