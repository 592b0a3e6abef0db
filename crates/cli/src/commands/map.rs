//! `segno map`: the segments of a volume by type and fill.
use crate::command_line;
use crate::document::Schema;
use crate::exit::usage;
use crate::segments::grid::{Grid, LEVELS};
use crate::segments::shapes::Picture;
use crate::segments::{Content, Segment, Segments, Total, png, poster, svg, write_file};
use crate::storage::DeviceOption;
use anyhow::{Result, bail};
use segno_format::BLOCKS_PER_SEG;
use serde::{Serialize, Serializer};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};

const COLUMNS: usize = 64;
const ROWS: usize = 24;
/// From empty to full.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// Show the segments of a volume by type and fill
///
/// Of a mount the last checkpoint is shown: `segno sync DIR` takes one; with a journal it is up to half a minute old. Pictures have a square for each segment or for several:
/// the colour is the type, the lightness the share of valid blocks, an outline an open log, red damage. A second panel has the
/// ages of segments, where the volume records them. On a terminal the type is the colour; otherwise use --json for it.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON: totals, and each segment
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Write a picture, x.svg or x.png
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the picture if it exists
    #[arg(short, long, requires = "output")]
    force: bool,
    #[command(flatten)]
    devices: DeviceOption,
    /// Image file, block device, or directory of a mount
    volume: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    if let Some(path) = &args.output {
        let encode = encoder(path).map_err(usage)?;
        let found = Segments::of(&args.volume, &args.devices)?;
        let name = args.volume.file_name().unwrap_or(args.volume.as_os_str()).display().to_string();
        let picture = poster::picture(&found, &name, &command_line::made_by());
        return write_file(path, args.force, &args.devices.of(&args.volume)?, &encode(&picture)?);
    }
    let found = Segments::of(&args.volume, &args.devices)?;
    let mut out = stdout().lock();
    if args.json {
        let report = Report {
            checkpoint_ver: found.checkpoint.checkpoint_ver.get(),
            blocks_per_segment: BLOCKS_PER_SEG,
            journal_changes: found.journal_changes,
            totals: found.totals(),
            segments: Each(&found.all),
        };
        Schema("segno.map", 1).print(out, &report)?;
    } else {
        let coloured = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        out.write_all(text(&found, coloured).as_bytes())?;
        if found.journal_changes {
            let name = args.volume.display();
            writeln!(
                out,
                "the journal has changes that are not shown: `segno journal info {name}` lists them"
            )?;
        }
    }
    Ok(())
}

type Encoder = fn(&Picture) -> Result<Vec<u8>>;

fn encoder(path: &Path) -> Result<Encoder> {
    let encoder: Encoder = match path.extension().and_then(|e| e.to_str()) {
        Some("svg") => |picture| Ok(svg::file(picture).into_bytes()),
        Some("png") => png::file,
        _ => bail!("{}: the name of a picture ends in .svg or .png", path.display()),
    };
    Ok(encoder)
}

/// The report in JSON. Segments are written one by one, as there may be eight million.
#[derive(Serialize)]
struct Report<'a> {
    checkpoint_ver: u64,
    blocks_per_segment: u32,
    journal_changes: bool,
    totals: Vec<Total>,
    segments: Each<'a>,
}

#[derive(Serialize)]
struct Row<'a> {
    segno: usize,
    #[serde(flatten)]
    segment: &'a Segment,
}

struct Each<'a>(&'a [Segment]);

impl Serialize for Each<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().enumerate().map(|(segno, segment)| Row { segno, segment }))
    }
}

/// A map of characters, and the totals.
fn text(found: &Segments, coloured: bool) -> String {
    let grid = Grid::new(&found.all, COLUMNS * ROWS, COLUMNS);
    let mut out =
        format!("a character = {} segments; {} empty to full\n", grid.per_cell, String::from_iter(SHADES));
    for row in grid.cells.chunks(grid.columns) {
        for cell in row {
            let shade = match (cell.content, cell.open) {
                (Content::Damaged, _) => '!',
                (_, true) => '▲',
                _ => shade(cell.level),
            };
            out += &painted(cell.content, &shade.to_string(), coloured);
        }
        out.push('\n');
    }
    out += "▲ open log  ! damaged\n";
    for t in found.totals().iter().filter(|t| t.segments > 0) {
        let name = painted(t.content, &format!("{:12}", t.content.name()), coloured);
        let percent = t.percent();
        // Writing to a string cannot fail.
        let _written =
            writeln!(out, "{name}{:>10} segments {:>12} valid blocks ({percent} %)", t.segments, t.valid);
    }
    out
}

/// Empty, then a shade for each started quarter.
fn shade(level: u8) -> char {
    let step = usize::from(level.div_ceil(LEVELS / 4));
    SHADES.get(step).copied().unwrap_or('█')
}

fn painted(content: Content, text: &str, coloured: bool) -> String {
    let [r, g, b] = content.colour();
    if coloured { format!("\x1b[38;2;{r};{g};{b}m{text}\x1b[0m") } else { text.to_owned() }
}
