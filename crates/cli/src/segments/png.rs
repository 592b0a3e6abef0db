//! A map as PNG, on white.
use super::Content;
use super::grid::{Cell, Grid, opacity};
use anyhow::Result;
use segno_format::sit::LogType;

/// Distance of squares, and their side, in pixels.
const PITCH: usize = 8;
const SIDE: usize = 7;
const OUTLINE: [u8; 3] = [0x20, 0x20, 0x20];

/// The colour of a full segment.
pub fn colour(content: Content) -> [u8; 3] {
    match content {
        Content::Free => [0x90, 0x90, 0x90],
        Content::Damaged => [0xe0, 0x00, 0x00],
        Content::Of(LogType::HotData) => [0xe8, 0x6a, 0x17],
        Content::Of(LogType::WarmData) => [0xc9, 0x9a, 0x06],
        Content::Of(LogType::ColdData) => [0x3b, 0x82, 0xc4],
        Content::Of(LogType::HotNode) => [0xc2, 0x4f, 0xa0],
        Content::Of(LogType::WarmNode) => [0x7a, 0x52, 0xc0],
        Content::Of(LogType::ColdNode) => [0x2b, 0x8a, 0x4e],
    }
}

/// The file.
pub fn file(grid: &Grid) -> Result<Vec<u8>> {
    let (width, height) = (grid.columns * PITCH, grid.rows().max(1) * PITCH);
    let mut pixels = vec![0xff; width * height * 3];
    for (i, pixel) in pixels.chunks_exact_mut(3).enumerate() {
        let (x, y) = (i % width, i / width);
        let cell = grid.cells.get(y / PITCH * grid.columns + x / PITCH);
        if let Some(cell) = cell
            && let Some(colour) = colour_at(*cell, x % PITCH, y % PITCH)
        {
            pixel.copy_from_slice(&colour);
        }
    }
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, u32::try_from(width)?, u32::try_from(height)?);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(out)
}

/// `None` between squares.
fn colour_at(cell: Cell, x: usize, y: usize) -> Option<[u8; 3]> {
    if x >= SIDE || y >= SIDE {
        return None;
    }
    let edge = x == 0 || y == 0 || x + 1 == SIDE || y + 1 == SIDE;
    if cell.open && edge {
        return Some(OUTLINE);
    }
    let share = opacity(cell.content, cell.level);
    Some(colour(cell.content).map(|c| (f32::from(c) * share + 255.0 * (1.0 - share)) as u8))
}
