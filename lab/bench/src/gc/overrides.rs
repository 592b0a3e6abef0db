//! Options that change an experiment.
use anyhow::{Result, bail, ensure};
use segno_clean::BLOCKS_PER_SEG;
use segno_gcmodel::{Experiment, Shape, Workload};

/// Fields of the named experiment to replace.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Overrides {
    /// Number of sections, each a zone [default of this and the following: the experiment's]
    #[arg(long, value_name = "N")]
    sections: Option<u32>,
    /// Blocks of a section, a multiple of 512
    #[arg(long, value_name = "N")]
    section_blocks: Option<u32>,
    /// Reserved sections
    #[arg(long, value_name = "N")]
    reserve: Option<u32>,
    /// Overprovision, in percent of what is not reserved
    #[arg(long, value_name = "PERCENT")]
    overprovision: Option<f64>,
    /// Blocks of the file
    #[arg(long, value_name = "N")]
    file_blocks: Option<u64>,
    /// Blocks of the file, as a share of the main area
    #[arg(long, value_name = "SHARE", conflicts_with = "file_blocks")]
    fill: Option<f64>,
    /// uniform, zipf:EXPONENT, sequential, hot:SHARE (all writes to that share of the file), 90/10 (90 % of the writes to 10 % of
    /// the pages), db (30 % to a cyclic log, 60 % zipf:0.9, 10 % uniform), or mix (small files are replaced and overwritten)
    #[arg(long, value_name = "NAME")]
    distribution: Option<Workload>,
    /// fdatasync after so many writes
    #[arg(long, value_name = "N")]
    fsync_every: Option<u64>,
    /// Dirty pages from which they are written back, in percent of the file
    #[arg(long, value_name = "PERCENT")]
    dirty: Option<f64>,
    /// The same as a number
    #[arg(long, value_name = "N", conflicts_with = "dirty")]
    dirty_pages: Option<u64>,
}

impl Overrides {
    /// The experiment with these fields. An error names the option that does not fit.
    pub fn applied_to(&self, mut e: Experiment) -> Result<Experiment> {
        self.set_geometry(&mut e)?;
        self.set_size(&mut e)?;
        self.set_workload(&mut e)?;
        let pages = e.extent().0;
        if let Some(percent) = self.dirty {
            ensure!((0.0..=100.0).contains(&percent), "--dirty: {percent} is no percentage");
            e.dirty = percent / 100.0;
        }
        if let Some(n) = self.dirty_pages {
            ensure!(n <= pages, "--dirty-pages: {} has {pages} pages, fewer than {n}", e.name);
            e.dirty_pages = Some(n);
        }
        Ok(e)
    }

    fn set_geometry(&self, e: &mut Experiment) -> Result<()> {
        e.zones = self.sections.unwrap_or(e.zones);
        e.blocks_per_zone = self.section_blocks.unwrap_or(e.blocks_per_zone);
        e.reserved = self.reserve.unwrap_or(e.reserved);
        e.overprovision = self.overprovision.unwrap_or(e.overprovision);
        let n = e.blocks_per_zone;
        ensure!(
            n > 0 && n.is_multiple_of(BLOCKS_PER_SEG),
            "--section-blocks: {n} is no multiple of {BLOCKS_PER_SEG}"
        );
        ensure!(
            e.main_blocks() < u64::from(u32::MAX) / 4,
            "--sections, --section-blocks: {} blocks are too many",
            e.main_blocks()
        );
        let percent = e.overprovision;
        ensure!((0.0..100.0).contains(&percent), "--overprovision: {percent} is no percentage below 100");
        // Six logs, and the least for files.
        let least = e.reserved.saturating_add(8);
        ensure!(e.zones > least, "--sections, --reserve: {} sections leave no room beside {least}", e.zones);
        ensure!(e.user_blocks() > 1024, "--overprovision: {percent} % leaves {} blocks", e.user_blocks());
        Ok(())
    }

    fn set_size(&self, e: &mut Experiment) -> Result<()> {
        let (option, wanted) = match (self.file_blocks, self.fill) {
            (Some(n), _) => ("--file-blocks", n),
            (None, Some(share)) => {
                ensure!(share > 0.0 && share < 1.0, "--fill: {share} is no share between 0 and 1");
                ("--fill", (e.main_blocks() as f64 * share) as u64)
            }
            (None, None) => {
                // The experiment's file is as large as its own volume permits.
                let most = Experiment { file_blocks: None, ..*e }.extent().0;
                e.file_blocks = e.file_blocks.map(|n| n.min(most));
                return Ok(());
            }
        };
        ensure!(matches!(e.shape, Shape::File { .. }), "{option}: {} has many files", e.name);
        let most = Experiment { file_blocks: None, ..*e }.extent().0;
        ensure!(wanted > 0 && wanted <= most, "{option}: {wanted} blocks; there is room for 1 to {most}");
        e.file_blocks = Some(wanted);
        Ok(())
    }

    fn set_workload(&self, e: &mut Experiment) -> Result<()> {
        let many = matches!(e.shape, Shape::Small { .. });
        if let Some(workload) = self.distribution {
            if many != (workload == Workload::Mix) {
                bail!(
                    "--distribution: mix is for experiments with many files, as {} {}",
                    e.name,
                    if many { "is" } else { "is not" }
                );
            }
            e.workload = workload;
        }
        if let Some(n) = self.fsync_every {
            ensure!(!many, "--fsync-every: {} has many files", e.name);
            ensure!(n > 0, "--fsync-every: 0 writes");
            e.fsync_every = Some(n);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        overrides: Overrides,
    }

    fn applied(experiment: &str, options: &[&str]) -> Result<Experiment, String> {
        let command = Command::try_parse_from([&["gc"], options].concat()).map_err(|e| e.to_string())?;
        let e = Experiment::named(experiment).unwrap();
        command.overrides.applied_to(e).map_err(|e| e.to_string())
    }

    #[test]
    fn options_replace_fields() {
        assert_eq!(applied("E1", &[]), Ok(Experiment::named("E1").unwrap()));
        let options =
            ["--sections", "1024", "--section-blocks", "512", "--reserve", "7", "--overprovision", "10"];
        let e = applied("E3", &options).unwrap();
        assert_eq!((e.zones, e.blocks_per_zone, e.reserved, e.overprovision), (1024, 512, 7, 10.0));
        let e = applied("E3", &[&options[..], &["--fill", "0.85", "--distribution", "zipf:0.9"]].concat())
            .unwrap();
        assert_eq!((e.extent().0, e.workload), (445_644, Workload::Zipf(0.9)));
        let e =
            applied("E1", &["--file-blocks", "1000", "--dirty-pages", "64", "--fsync-every", "2"]).unwrap();
        assert_eq!((e.extent().0, e.dirty_limit(), e.fsync_every), (1000, 64, Some(2)));
        assert_eq!(applied("E1", &["--dirty", "50"]).unwrap().dirty_limit(), 44_416);
    }

    #[test]
    fn errors_name_the_option() {
        for (experiment, options) in [
            ("E1", ["--sections", "14"]),
            ("E1", ["--section-blocks", "1000"]),
            ("E1", ["--section-blocks", "0"]),
            ("E1", ["--reserve", "60"]),
            ("E1", ["--overprovision", "100"]),
            ("E1", ["--overprovision", "99.9"]),
            ("E1", ["--file-blocks", "0"]),
            ("E1", ["--file-blocks", "130000"]),
            ("E8", ["--file-blocks", "1000"]),
            ("E1", ["--fill", "1.1"]),
            ("E1", ["--fill", "0.9"]),
            ("E8", ["--fill", "0.5"]),
            ("E1", ["--distribution", "mix"]),
            ("E8", ["--distribution", "uniform"]),
            ("E8", ["--fsync-every", "4"]),
            ("E1", ["--fsync-every", "0"]),
            ("E1", ["--dirty", "101"]),
            ("E1", ["--dirty-pages", "100000"]),
        ] {
            let why = applied(experiment, &options).unwrap_err();
            assert!(why.contains(options[0]), "{options:?}: {why}");
        }
        for both in [["--fill", "0.5", "--file-blocks", "9"], ["--dirty", "1", "--dirty-pages", "9"]] {
            assert!(applied("E1", &both).unwrap_err().contains("cannot be used with"));
        }
    }
}
