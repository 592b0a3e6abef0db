//! Pictures as SVG: a path for each paint, so that large volumes stay small files.
use super::shapes::{CellStyle, Picture, Shape, Squares, Text};
use segno_format::text;
use std::fmt::Write;

/// Fonts of a separate document. Narrow windows, which shrink it, get larger ones.
const STYLE: &str = "svg { max-width: 100%; height: auto; background: #fff; } \
                     text { font: 24px system-ui, \"DejaVu Sans\", sans-serif; fill: #1f2328; } \
                     .title { font-size: 34px; font-weight: 600; } \
                     @media (max-width: 640px) { text { font-size: 37px; } .title { font-size: 44px; } }";

/// The `<svg>` element without width and height; colours fit light and dark pages.
pub fn element(picture: &Picture) -> String {
    svg(picture, "", "")
}

/// A file of the picture's size, on white.
pub fn file(picture: &Picture) -> String {
    let size = format!("width=\"{}\" height=\"{}\" ", picture.width, picture.height);
    let ground = "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    svg(
        picture,
        &size,
        &format!("<title>{}</title>\n<style>{STYLE}</style>\n{ground}", escaped(&picture.label)),
    )
}

fn svg(picture: &Picture, size: &str, before: &str) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" {size}viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{before}",
        picture.width,
        picture.height,
        escaped(&picture.label)
    );
    for shape in &picture.shapes {
        out += &match shape {
            Shape::Squares(squares) => path(squares),
            Shape::Text(text) => line(text),
        };
    }
    out + "</svg>\n"
}

fn path(squares: &Squares) -> String {
    let paint = match squares.paint {
        CellStyle::Fill([r, g, b], percent) => {
            format!("fill=\"#{r:02x}{g:02x}{b:02x}\" fill-opacity=\"{:.2}\"", f32::from(percent) / 100.0)
        }
        CellStyle::Outline => "fill=\"none\" stroke=\"#606060\" stroke-width=\"2\"".to_owned(),
    };
    let mut path = String::new();
    let side = squares.side;
    for (x, y) in &squares.at {
        // Writing to a string cannot fail.
        let _written = write!(path, "M{x} {y}h{side}v{side}h-{side}z");
    }
    format!("<path {paint} d=\"{path}\"/>\n")
}

fn line(text: &Text) -> String {
    let (x, y) = text.at;
    let class = if text.is_title { " class=\"title\"" } else { "" };
    let anchor = if text.ends_there { " text-anchor=\"end\"" } else { "" };
    format!("<text{class} x=\"{x}\" y=\"{y}\"{anchor}>{}</text>\n", escaped(&text.line))
}

/// Text between tags or in an attribute, without control characters.
pub fn escaped(text: &str) -> String {
    text::line(text.as_bytes())
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text() {
        assert_eq!(escaped("<a href=\"&\">\n"), "&lt;a href=&quot;&amp;&quot;&gt;\\x0a");
    }
}
