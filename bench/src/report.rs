//! Medians, spread and ratios, with what a reader needs to judge them.
use crate::peer::Peer;
use crate::rows::{ROWS, Scale};
use anyhow::Result;
use std::collections::BTreeMap;
use std::fs;

/// Rates by row and peer, one for each round.
#[derive(Default)]
pub struct Results {
    rates: BTreeMap<(&'static str, &'static str), Vec<f64>>,
    /// MiB/s of the backing disk.
    pub raw: Vec<f64>,
}

fn median(values: &[f64]) -> f64 {
    let mut v = values.to_vec();
    v.sort_by(f64::total_cmp);
    let n = v.len();
    match (v.get(n / 2), v.get(n.wrapping_sub(1) / 2)) {
        (Some(a), Some(b)) => (a + b) / 2.0,
        _ => f64::NAN,
    }
}

/// Half the distance between smallest and largest, in percent of the median.
fn spread(values: &[f64]) -> f64 {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(0.0, f64::max);
    (max - min) / 2.0 / median(values) * 100.0
}

impl Results {
    pub fn add(&mut self, row: &'static str, peer: Peer, rate: f64) {
        self.rates.entry((row, peer.name())).or_default().push(rate);
    }

    fn of(&self, row: &'static str, peer: Peer) -> Option<&Vec<f64>> {
        self.rates.get(&(row, peer.name()))
    }

    /// Median over the rounds of the ratio within each round.
    fn ratio(&self, row: &'static str, peer: Peer) -> Option<f64> {
        let (ours, theirs) = (self.of(row, Peer::Segno)?, self.of(row, peer)?);
        let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
        Some(median(&ratios))
    }

    pub fn print_markdown(&self, scale: Scale) -> Result<()> {
        println!("{}\n", setting(scale));
        println!(
            "Backing disk, 1 MiB writes and one fsync, no file system of ours: {:.0} MiB/s ± {:.0} %.\n",
            median(&self.raw),
            spread(&self.raw)
        );
        let there: Vec<Peer> =
            Peer::ALL.into_iter().filter(|p| self.rates.keys().any(|k| k.1 == p.name())).collect();
        let others: Vec<Peer> = there.iter().copied().filter(|p| *p != Peer::Segno).collect();
        let heads: Vec<String> = there.iter().map(|p| p.name().to_owned()).collect();
        let ratios: Vec<String> = others.iter().map(|p| format!("/{}", p.name())).collect();
        println!("| row | unit | {} | {} |", heads.join(" | "), ratios.join(" | "));
        println!("|---|---|{}", "---:|".repeat(there.len() + others.len()));
        for row in ROWS {
            let cell = |p: &Peer| {
                self.of(row.name, *p)
                    .map_or("–".to_owned(), |v| format!("{:.0} ± {:.0} %", median(v), spread(v)))
            };
            let ratio = |p: &Peer| self.ratio(row.name, *p).map_or("–".to_owned(), |r| format!("{r:.2}"));
            let cells: Vec<String> = there.iter().map(cell).chain(others.iter().map(ratio)).collect();
            println!("| {} | {} | {} |", row.name, row.unit, cells.join(" | "));
        }
        println!();
        for peer in others {
            let ratios: Vec<f64> = ROWS.iter().filter_map(|r| self.ratio(r.name, peer)).collect();
            let mean = (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
            println!("Geometric mean of segno/{} over {} rows: {mean:.2}.", peer.name(), ratios.len());
        }
        Ok(())
    }

    pub fn print_json(&self, scale: Scale) -> Result<()> {
        let rows: Vec<serde_json::Value> = ROWS
            .iter()
            .flat_map(|row| Peer::ALL.map(|p| (row, p)))
            .filter_map(|(row, p)| {
                let rates = self.of(row.name, p)?;
                Some(serde_json::json!({
                    "row": row.name, "unit": row.unit, "metadata": row.metadata, "peer": p.name(),
                    "rates": rates, "median": median(rates), "spread_percent": spread(rates),
                    "segno_ratio": self.ratio(row.name, p),
                }))
            })
            .collect();
        let out =
            serde_json::json!({ "setting": setting(scale), "raw_mib_per_s": self.raw, "results": rows });
        println!("{}", serde_json::to_string_pretty(&out)?);
        Ok(())
    }
}

/// Machine, kernel and scale in one line.
fn setting(scale: Scale) -> String {
    let read = |p: &str| fs::read_to_string(p).unwrap_or_default();
    let field = |text: &str, key: &str| {
        text.lines()
            .find(|l| l.starts_with(key))
            .and_then(|l| l.split(':').nth(1))
            .unwrap_or("?")
            .trim()
            .to_owned()
    };
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "Machine: {} × {cpus}, memory {}, Linux {}. Scale: {scale:?}. Medians of alternating rounds, ± half the range.",
        field(&read("/proc/cpuinfo"), "model name"),
        field(&read("/proc/meminfo"), "MemTotal"),
        read("/proc/sys/kernel/osrelease").trim(),
    )
}
