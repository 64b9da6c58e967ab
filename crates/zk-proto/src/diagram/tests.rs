use alloc::string::ToString;

use super::svg::STYLE;
use super::*;

fn drawn(build: impl FnOnce(&mut Diagram)) -> Diagram {
    let mut diagram = Diagram::new("");
    build(&mut diagram);
    diagram
}

#[test]
fn messages_cross_the_lanes_between() {
    let diagram = drawn(|diagram| {
        let lanes = ["a", "bb", "c"].map(|name| diagram.lane(name));
        diagram.message(None, lanes[0], lanes[2], Style::Plain, "to the right");
        diagram.activity(lanes[1], Activity::Absent);
        diagram.message(None, lanes[2], lanes[0], Style::Reply, "back");
        diagram.message(None, lanes[0], lanes[1], Style::Lost, "lost");
        diagram.activity(lanes[2], Activity::Down);
        diagram.message(Some(Duration::from_secs(3600)), lanes[1], lanes[1], Style::Event, "self");
    });
    let expected = "               a        bb          c
               │────to the right───▶│
               │◀╌╌╌╌╌╌╌back╌╌╌╌╌╌╌╌│
               │╌╌lost╌╌✗           │
  3600.000 s   │           * self   ✗
";
    assert_eq!(diagram.to_string(), expected);
}

#[test]
fn every_kind_of_row_and_line_has_its_place_in_the_image() {
    let mut diagram = Diagram::new("A title");
    let [a, long, c] = ["a", "a long name", "c"].map(|name| diagram.lane(name));
    let at = |ms| Some(Duration::from_millis(ms));
    diagram.activity(c, Activity::Absent);
    diagram.message(at(1), a, long, Style::Plain, "to the right");
    diagram.activity(a, Activity::Waiting);
    diagram.activity(long, Activity::Holding);
    diagram.message(at(99_999), long, a, Style::Reply, "to the left");
    diagram.note(at(100_000), a, Style::Error, "a failure that is long enough");
    diagram.activity(c, Activity::Down);
    diagram.message(None, a, c, Style::Lost, "lost");
    diagram.message(None, c, a, Style::Event, "an event");
    diagram.note(None, c, Style::Event, "on the last lane");
    let svg = diagram.to_svg();
    let (head, body) = svg.split_once(STYLE).expect("the style");
    assert_eq!([head, body].concat(), include_str!("../../tests/diagram.svg"));
}

#[test]
fn hostile_text_stays_one_line_and_well_formed() {
    let diagram = drawn(|diagram| {
        let lane = diagram.lane("<b>&\"\n");
        diagram.note(None, lane, Style::Error, "</text>\u{1b}[31m\u{202e}\0\u{fffe}");
    });
    let text = diagram.to_string();
    assert_eq!(text.lines().count(), 2, "{text:?}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    let svg = diagram.to_svg();
    assert!(svg.contains("&lt;b&gt;&amp;&quot;\\n"), "{svg}");
    assert!(svg.contains("&lt;/text&gt;\\u{1b}[31m\\u{202e}\\u{0}\\u{fffe}"), "{svg}");
    assert_eq!(svg.matches("</text>").count(), svg.matches("<text ").count());
}

#[test]
fn a_long_label_is_cut_and_kept_as_a_tip() {
    let diagram = drawn(|diagram| {
        diagram.set_label_limit(5);
        let lane = diagram.lane("a");
        diagram.note(None, lane, Style::Plain, "12345");
        diagram.note(None, lane, Style::Plain, "123456");
    });
    let text = diagram.to_string();
    assert!(text.contains("│ 12345\n") && text.contains("│ 1234…\n"), "{text}");
    let svg = diagram.to_svg();
    let tips: Vec<_> = svg.split("<title>").filter(|tip| tip.starts_with("123")).collect();
    assert!(tips.len() == 1 && tips[0].starts_with("123456</title>"), "{svg}");
}

#[test]
fn a_diagram_without_lanes_or_rows_is_drawn() {
    let mut diagram = Diagram::new("");
    assert!(diagram.is_empty());
    diagram.note(None, Lane(7), Style::Plain, "of another diagram");
    diagram.activity(Lane(7), Activity::Down);
    assert_eq!(diagram.to_string(), "\n\n");
    assert!(diagram.to_svg().ends_with("</svg>\n"));
    assert!(!diagram.is_empty());
    let lane = diagram.lane("a").0.to_string();
    assert_eq!(lane, "0");
}
