use segno_clean::rounds::{Batching, Loop};
use segno_gcmodel::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut e = Experiment::named(&a[1]).unwrap();
    let how = match a[3].as_str() {
        "seed" => Loop::Seed,
        "current" => Loop::Current,
        _ => Loop::Batch,
    };
    let env = |n: &str| std::env::var(n).ok();
    if let Some(d) = env("DIRTY") {
        e.dirty = d.parse().unwrap();
    }
    let mut b = Batching::default();
    if let Some(d) = env("FLOOR") {
        b.floor = d.parse().unwrap();
    }
    if let Some(d) = env("SECS") {
        b.sections = d.parse().unwrap();
    }
    let s = Setting {
        experiment: e,
        policy: a[2].clone(),
        how,
        seed: 1,
        batching: b,
        limit: env("LIMIT").map(|l| l.parse().unwrap()),
    };
    let t = std::time::Instant::now();
    match run(&s, |_, _| {}) {
        Ok(o) => {
            for c in &o.quarters {
                let w = |n: u64| n as f64 / c.app_writes as f64;
                print!("{:9} waf {:.3} ", c.app_writes, w(c.total()));
                for k in Kind::ALL {
                    print!("{} {:.3} ", k.name(), w(c.of(k)));
                }
                println!(
                    "moved {} {} secs {:?} segs {:?} cps {} rounds {} viol {} absorbed {:.3}",
                    c.of(Kind::MovedData),
                    c.of(Kind::MovedNodes),
                    c.sections,
                    c.segments,
                    c.checkpoints,
                    c.rounds,
                    c.zone_violations,
                    w(c.coalesced + c.written_by_cleaning)
                );
            }
            println!(
                "layout {} nodes {} file {} {:.1}s {:.1}M/s",
                o.layout.total(),
                o.nodes,
                o.file_blocks,
                t.elapsed().as_secs_f64(),
                o.quarters[3].total() as f64 / 1e6 / t.elapsed().as_secs_f64()
            );
        }
        Err(e) => println!("{e}"),
    }
}
