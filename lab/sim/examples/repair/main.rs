//! Repairs damaged volumes: `repair [SEED [FROM [TO]]]`. With the variable FSCK set to a folder, fsck.f2fs checks every repaired
//! volume there; with SAVE set to one, repaired volumes on one device are kept in it. Exits with 1 if a rule was broken.
mod fsck;

use segno_sim::hostile::image;
use segno_sim::hostile::repair::{Ended, lacks_superblock, run};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse().unwrap_or(0));
    let (seed, from, to) =
        (numbers.next().unwrap_or(1), numbers.next().unwrap_or(0), numbers.next().unwrap_or(2000));
    let started = Instant::now();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut refusals: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut judged = 0;
    for number in from..to {
        let outcome = image(seed, number).and_then(|image| {
            if to == from + 1 {
                print!("{image}");
            }
            let ended = segno_testkit::caught(|| run(&image))?;
            if let Ended::Repaired { after, .. } = &ended
                && !lacks_superblock(&image)
            {
                judged += u64::from(fsck::check(after)?);
                fsck::save(after, &format!("{seed}-{number}"))?;
            }
            Ok(ended)
        });
        let kind = match outcome {
            Ok(Ended::Sound) => "sound",
            Ok(Ended::Beyond) => "beyond repair",
            Ok(Ended::Refused(why)) => {
                if to == from + 1 {
                    println!("refused: {why}");
                }
                let words: String = why.chars().filter(|c| !c.is_ascii_digit()).take(150).collect();
                refusals.entry(words).or_default().push(number);
                "refused"
            }
            Ok(Ended::Repaired { plan, .. }) => {
                if to == from + 1 {
                    plan.actions.iter().for_each(|a| println!("{a}"));
                }
                "repaired"
            }
            Err(e) => {
                println!("number {number}: {e}");
                "violations"
            }
        };
        *counts.entry(kind).or_default() += 1;
    }
    let mut refusals: Vec<_> = refusals.into_iter().collect();
    refusals.sort_by_key(|(_, numbers)| std::cmp::Reverse(numbers.len()));
    for (why, numbers) in refusals {
        println!(
            "refused {} (such as {:?}): {why}",
            numbers.len(),
            numbers.iter().take(4).collect::<Vec<_>>()
        );
    }
    println!("{counts:?}, {judged} judged by fsck.f2fs, {:.0} s", started.elapsed().as_secs_f64());
    if counts.contains_key("violations") { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
