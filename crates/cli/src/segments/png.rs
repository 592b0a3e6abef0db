//! Pictures as PNG, on white.
use super::shapes::{CellStyle, Picture, Shape, Squares, Text};
use anyhow::Result;
use embedded_graphics::mono_font::MonoTextStyle;
use embedded_graphics::mono_font::iso_8859_1::FONT_10X20;
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::{
    Dimensions, DrawTarget, Drawable, OriginDimensions, Pixel, Point, RgbColor, Size,
};
use embedded_graphics::primitives::{Primitive, PrimitiveStyle, Rectangle};
use embedded_graphics::text::{Alignment, Text as Line};
use std::convert::Infallible;

const INK: Rgb888 = Rgb888::new(0x1f, 0x23, 0x28);
const OUTLINE: Rgb888 = Rgb888::new(0x20, 0x20, 0x20);

/// The file.
pub fn file(picture: &Picture) -> Result<Vec<u8>> {
    let size = Size::new(u32::try_from(picture.width)?, u32::try_from(picture.height)?);
    let mut canvas = Canvas { size, pixels: vec![0xff; picture.width * picture.height * 3] };
    for shape in &picture.shapes {
        let Ok(()) = match shape {
            Shape::Squares(squares) => squares_on(&mut canvas, squares),
            Shape::Text(text) => text_on(&mut canvas, text),
        };
    }
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, size.width, size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&canvas.pixels)?;
    Ok(out)
}

fn squares_on(canvas: &mut Canvas, squares: &Squares) -> Result<(), Infallible> {
    let style = match squares.paint {
        CellStyle::Fill(colour, percent) => {
            let share = u32::from(percent.min(100));
            let [r, g, b] = colour.map(|c| ((u32::from(c) * share + 255 * (100 - share)) / 100) as u8);
            PrimitiveStyle::with_fill(Rgb888::new(r, g, b))
        }
        CellStyle::Outline => PrimitiveStyle::with_stroke(OUTLINE, 1),
    };
    let side = Size::new_equal(squares.side as u32);
    squares.at.iter().try_for_each(|at| Rectangle::new(point(*at), side).into_styled(style).draw(canvas))
}

fn text_on(canvas: &mut Canvas, text: &Text) -> Result<(), Infallible> {
    let alignment = if text.ends_there { Alignment::Right } else { Alignment::Left };
    let style = MonoTextStyle::new(&FONT_10X20, INK);
    if text.is_title {
        let mut twice = DoubleSize { canvas, origin: point(text.at) };
        Line::new(&text.line, Point::zero(), style).draw(&mut twice)?;
    } else {
        Line::with_alignment(&text.line, point(text.at), style, alignment).draw(canvas)?;
    }
    Ok(())
}

fn point((x, y): (usize, usize)) -> Point {
    Point::new(x as i32, y as i32)
}

struct Canvas {
    size: Size,
    pixels: Vec<u8>,
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        self.size
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        let bounds = self.bounding_box();
        for Pixel(at, colour) in pixels.into_iter().filter(|p| bounds.contains(p.0)) {
            let place = (at.y as usize * self.size.width as usize + at.x as usize) * 3;
            if let Some(pixel) = self.pixels.get_mut(place..place + 3) {
                pixel.copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}

/// A canvas with pixels of twice the size, from this point on.
struct DoubleSize<'a> {
    canvas: &'a mut Canvas,
    origin: Point,
}

impl Dimensions for DoubleSize<'_> {
    fn bounding_box(&self) -> Rectangle {
        self.canvas.bounding_box()
    }
}

impl DrawTarget for DoubleSize<'_> {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        let origin = self.origin;
        let four = |Pixel(at, colour): Pixel<Rgb888>| {
            let corner = origin + at * 2;
            [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(x, y)| Pixel(corner + Point::new(x, y), colour))
        };
        self.canvas.draw_iter(pixels.into_iter().flat_map(four))
    }
}
