//! A map as PNG, on white.
use super::grid::{Cell, Grid, PITCH, SIDE, opacity};
use anyhow::Result;

const OUTLINE: [u8; 3] = [0x20, 0x20, 0x20];

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
    Some(cell.content.colour().map(|c| (f32::from(c) * share + 255.0 * (1.0 - share)) as u8))
}
