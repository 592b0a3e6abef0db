//! A map as SVG: a path for each colour and lightness, so that large volumes stay small files.
use super::Content;
use super::grid::{Cell, Grid, LEVELS, PITCH, SIDE, opacity};
use std::fmt::Write;

/// The `<svg>` element without a size of its own; colours fit light and dark pages.
pub fn element(grid: &Grid) -> String {
    let (width, height) = (grid.columns * PITCH, grid.rows() * PITCH);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"map of the segments\">\n"
    );
    for content in Content::all() {
        for level in 0..=LEVELS {
            let squares = squares(grid, |c| c.content == content && c.level == level);
            if !squares.is_empty() {
                let [r, g, b] = content.colour();
                let opacity = opacity(content, level);
                out += &format!(
                    "<path fill=\"#{r:02x}{g:02x}{b:02x}\" fill-opacity=\"{opacity:.2}\" d=\"{squares}\"/>\n"
                );
            }
        }
    }
    let open = squares(grid, |c| c.open);
    if !open.is_empty() {
        out += &format!("<path fill=\"none\" stroke=\"#808080\" d=\"{open}\"/>\n");
    }
    out + "</svg>\n"
}

fn squares(grid: &Grid, wanted: impl Fn(&Cell) -> bool) -> String {
    let mut path = String::new();
    for (x, y, _) in grid.placed().filter(|(_, _, cell)| wanted(cell)) {
        // Writing to a string cannot fail.
        let _written = write!(path, "M{} {}h{SIDE}v{SIDE}h-{SIDE}z", x * PITCH, y * PITCH);
    }
    path
}
