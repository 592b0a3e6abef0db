//! The contents of the screen.
use super::figures::{self, Line as Figure};
use crate::counters::{CounterSnapshot, GROUPS, Reading};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table, Wrap};
use std::time::{Duration, Instant};

const KEYS: &str = "q end  s sort  p pause  ? explain  arrows scroll";
/// From this width on the table describes its counters.
const DESCRIBED: u16 = 120;

/// How the counters are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Group,
    Change,
    Name,
}

impl Order {
    pub fn next(self) -> Self {
        match self {
            Self::Group => Self::Change,
            Self::Change => Self::Name,
            Self::Name => Self::Group,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Group => "by group",
            Self::Change => "by change",
            Self::Name => "by name",
        }
    }
}

/// The figures on the screen, and how they are shown.
pub struct State {
    dir: String,
    now: CounterSnapshot,
    earlier: Option<CounterSnapshot>,
    /// When the counters were last read, or would have been.
    looked: Instant,
    pub paused: bool,
    pub explains: bool,
    pub order: Order,
    pub scroll: usize,
}

impl State {
    pub fn new(dir: String, now: CounterSnapshot) -> Self {
        let looked = Instant::now();
        Self {
            dir,
            now,
            earlier: None,
            looked,
            paused: false,
            explains: false,
            order: Order::Group,
            scroll: 0,
        }
    }

    pub fn advance(&mut self, next: CounterSnapshot) {
        self.earlier = Some(std::mem::replace(&mut self.now, next));
    }

    pub fn looked(&mut self) {
        self.looked = Instant::now();
    }

    pub fn age(&self) -> Duration {
        self.looked.elapsed()
    }

    /// The counters in their order, with the change a second of totals.
    fn counters(&self) -> Vec<(&Reading, Option<f64>)> {
        let rate = |r: &Reading| self.now.rate(r, self.earlier.as_ref()?);
        let mut all: Vec<_> = self.now.readings.iter().map(|r| (r, rate(r))).collect();
        let group = |r: &Reading| GROUPS.iter().position(|g| r.is_of(g)).unwrap_or(GROUPS.len());
        match self.order {
            Order::Group => all.sort_by_key(|(r, _)| group(r)),
            Order::Change => all.sort_by(|(_, a), (_, b)| b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0))),
            Order::Name => all.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name)),
        }
        all
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let lines = figures::lines(&state.now, state.earlier.as_ref());
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    let paused = if state.paused { "  paused" } else { "" };
    let title = format!("segno top {}  {}{paused}", state.dir, state.order.word());
    frame.render_widget(Paragraph::new(title).style(bold()), head);
    frame.render_widget(Paragraph::new(KEYS).style(Style::new().add_modifier(Modifier::DIM)), foot);
    if state.explains {
        explain(frame, body, state, &lines);
    } else {
        figures_and_table(frame, body, state, &lines);
    }
}

fn figures_and_table(frame: &mut Frame<'_>, area: Rect, state: &mut State, lines: &[Figure]) {
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let [above, below] = Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(area);
    let text: Vec<Line<'_>> = lines
        .iter()
        .map(|l| Line::from(vec![Span::styled(format!("{:12}", l.name), bold()), Span::raw(l.text.as_str())]))
        .collect();
    frame.render_widget(Paragraph::new(text), above);
    let room = usize::from(below.height.saturating_sub(1));
    state.scroll = state.scroll.min(state.now.readings.len().saturating_sub(room));
    let described = area.width >= DESCRIBED;
    let rows: Vec<Row<'_>> = state
        .counters()
        .into_iter()
        .skip(state.scroll)
        .take(room)
        .map(|(r, rate)| row(r, rate, described))
        .collect();
    let widths = [Constraint::Length(30), Constraint::Length(16), Constraint::Length(14), Constraint::Min(0)];
    let head = Row::new(["counter", "           value", "      a second", ""]).style(bold());
    frame.render_widget(Table::new(rows, widths).header(head), below);
}

fn row(r: &Reading, rate: Option<f64>, described: bool) -> Row<'static> {
    let rate = rate.map(|n| format!("{n:>14.1}")).unwrap_or_default();
    let help = if described { r.help() } else { String::new() };
    Row::new([r.name.clone(), format!("{:>16}", r.value), rate, help])
}

/// The lines above the table, then all counters.
fn explain(frame: &mut Frame<'_>, area: Rect, state: &mut State, lines: &[Figure]) {
    let entry = |name: &str, help: &str| {
        Line::from(vec![Span::styled(format!("{name:30}"), bold()), Span::raw(help.to_owned())])
    };
    let mut text: Vec<Line<'_>> = lines.iter().map(|l| entry(l.name, l.help)).collect();
    text.push(Line::default());
    text.extend(state.counters().iter().map(|(r, _)| entry(&r.name, &r.help())));
    state.scroll = state.scroll.min(text.len().saturating_sub(1));
    let shown: Vec<Line<'_>> = text.into_iter().skip(state.scroll).collect();
    frame.render_widget(Paragraph::new(shown).wrap(Wrap { trim: false }), area);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{self, Slow};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn state() -> State {
        let at = Instant::now();
        let first = counters::sample(&[
            ("user_bytes", 0),
            ("read_bytes", 0),
            ("fuse_write", 10),
            ("node_blocks", 0),
            ("opened_sections_cleaning", 1),
        ]);
        let second = counters::sample(&[
            ("user_bytes", 2 << 20),
            ("read_bytes", 3 << 20),
            ("fuse_write", 30),
            ("op_write_ns_p50", 45_000),
            ("op_write_ns_p99", 12_340_000),
            ("op_fsync_ns_p99", 120_000_000),
            ("node_blocks", 512),
            ("valid_block_count", 256),
            ("user_block_count", 1024),
            ("free_sections", 77),
            ("opened_sections_warm_data", 4),
            ("opened_sections_cold_node", 1),
            ("opened_sections_cleaning", 2),
        ]);
        let slow = |op: &str, ns| Slow { op: op.into(), ino: 17, ns, age_ms: 4200 };
        let slowest = vec![slow("fsync", 120_000_000), slow("write", 8_000_000)];
        let mut state = State::new(
            "mnt".into(),
            CounterSnapshot { at, volume: None, readings: first, slowest: Vec::new() },
        );
        state.advance(CounterSnapshot {
            at: at + Duration::from_secs(2),
            volume: None,
            readings: second,
            slowest,
        });
        state
    }

    fn screen(state: &mut State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let cells = terminal.backend().buffer().content();
        let line = |row: &[ratatui::buffer::Cell]| row.iter().map(|c| c.symbol()).collect::<String>();
        cells.chunks(width.into()).map(|row| line(row).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_small_terminal_has_all_figures() {
        let expected = "\
segno top mnt  by group
requests    10/s: lookup 0, read 0, write 10, create 0, unlink 0
latency     read 0.00/0.00, write 0.04/12.3, fsync 0.00/120 ms (p50/p99)
of names    lookup 0.00/0.00, create 0.00/0.00, remove 0.00/0.00, list 0.00/0.00
slowest     fsync of inode 17 120.0 ms, 4 s ago; write of inode 17 8.0 ms, 4 s a
bytes       in 1.0 MiB/s, device 1.0 MiB/s, amplification 1.000, out 1.5 MiB/s
space       1.0 MiB of 4.0 MiB (25 %), free sections 77, prefree segments 0
opened      3.0/s, sections for data 0/4/0, nodes 0/0/1, streams 0, cleaning 2";
        let lines = screen(&mut state(), 80, 24);
        assert_eq!(lines[..8].join("\n"), expected);
        assert_eq!(lines[14], "counter                                   value       a second");
        assert_eq!(lines[15], "user_bytes                              2097152      1048576.0");
        assert_eq!(lines[17], "node_blocks                                 512          256.0");
        assert_eq!(lines[20], "free_sections                                77");
        assert_eq!((lines.len(), lines[23].as_str()), (24, KEYS));
    }

    #[test]
    fn without_an_earlier_look_rates_are_zero() {
        let mut state = state();
        state.earlier = None;
        let lines = screen(&mut state, 80, 24);
        assert!(lines[1].starts_with("requests    0/s: "), "{}", lines[1]);
        assert!(lines[7].starts_with("opened      0.0/s, "), "{}", lines[7]);
    }

    #[test]
    fn a_wide_terminal_describes_counters() {
        let lines = screen(&mut state(), 200, 60);
        assert!(lines[4].ends_with("write of inode 17 8.0 ms, 4 s ago"), "{}", lines[4]);
        assert!(lines[15].ends_with("1048576.0 bytes that programs wrote"), "{}", lines[15]);
        assert_eq!((lines.len(), lines[59].as_str()), (60, KEYS));
    }

    #[test]
    fn no_size_is_too_small() {
        for (width, height) in [(1, 1), (20, 5), (3, 60)] {
            let mut state = state();
            screen(&mut state, width, height);
            state.explains = true;
            state.scroll = 1000;
            screen(&mut state, width, height);
        }
    }

    #[test]
    fn counters_are_sorted_and_explained() {
        let mut state = state();
        state.order = Order::Name;
        assert!(screen(&mut state, 80, 24)[15].starts_with("free_sections "));
        state.order = Order::Change;
        assert!(screen(&mut state, 80, 24)[15].starts_with("read_bytes "));
        state.explains = true;
        let text = screen(&mut state, 200, 60).join("\n");
        for figure in figures::lines(&state.now, None) {
            assert!(text.contains(&figure.help[..40]), "{}", figure.name);
        }
        assert!(text.contains("bytes that programs wrote"), "{text}");
    }
}
