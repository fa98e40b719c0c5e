// A chart is pasted into a page unescaped, so the text that it quotes must not become markup.
#include "core/answer/report/chart/svg_writer.h"

#include <doctest/doctest.h>

namespace memtune::svg_writer_test {

using namespace memtune::report;

TEST_CASE("escape leaves no character with a meaning in text or quotes") {
  CHECK(escape("a<b & \"c\" 'd'>") == "a&lt;b &amp; &quot;c&quot; &#39;d&#39;&gt;");
  CHECK(escape("line\nfeed\x1b\xE2\x80\xAE") == "line feed\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(escape("µs × 2, 層") == "µs × 2, 層");
  CHECK(escape("") == "");
}

TEST_CASE("invalid UTF-8 bytes are replaced one by one and the bytes around them stay") {
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(escape("a\xFFz") == "a" + bad + "z");
  CHECK(escape("cut \xE5\xB1") == "cut " + bad + bad);
  CHECK(escape("\xC0\xAF") == bad + bad);                      // overlong form of '/'
  CHECK(escape("\xED\xA0\x80") == bad + bad + bad);            // half of a UTF-16 surrogate pair
  CHECK(escape("\xF4\x90\x80\x80") == bad + bad + bad + bad);  // beyond Unicode
  CHECK(escape("\xF0\x9F\x99\x82") == "\xF0\x9F\x99\x82");
}

TEST_CASE("an SVG element has its position and class and tooltip") {
  SvgWriter svg(10, 20, "what it <is>");
  svg.bar({1, 2.26}, 3, -0.0, "s1 pale", "a & b");
  svg.text({4, 5}, "x<y", TextAnchor::end, "label");
  CHECK(std::move(svg).finish() ==
        "<svg viewBox=\"0 0 10 20\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\">\n"
        "<title>what it &lt;is&gt;</title>\n"
        "<rect x=\"1\" y=\"2.3\" width=\"3\" height=\"0\" class=\"s1 pale\"><title>a &amp; b</title></rect>\n"
        "<text x=\"4\" y=\"5\" text-anchor=\"end\" class=\"label\">x&lt;y</text>\n</svg>\n");
}

TEST_CASE("axis ticks are round and within the range and at most as many as requested") {
  const auto texts = [](double low, double high, int most) {
    const AxisTicks ticks = round_ticks(low, high, most);
    std::string all;
    for (double value : ticks.values) all += (all.empty() ? "" : " ") + ticks.text(value);
    return all;
  };
  CHECK(texts(0, 10, 6) == "0 2 4 6 8 10");
  CHECK(texts(255, 332, 7) == "260 280 300 320");
  CHECK(texts(0, 1, 6) == "0.0 0.2 0.4 0.6 0.8 1.0");
  CHECK(texts(0.011, 0.019, 5) == "0.012 0.014 0.016 0.018");
  CHECK(texts(-1, 1, 5) == "-1.0 -0.5 0.0 0.5 1.0");
  for (double high : {0.37, 1.0, 9.99, 1e6, 12345.678}) CHECK(round_ticks(0, high, 7).values.size() <= 7);
}

TEST_CASE("a range of one value has ticks too") { CHECK(round_ticks(5, 5, 6).values.front() == 5); }

}  // namespace memtune::svg_writer_test
