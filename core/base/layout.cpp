#include "core/base/layout.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/utf8.h"

namespace memtune {
namespace {

// Size in bytes of the first `width` characters.
size_t prefix_bytes(std::string_view text, int width) {
  size_t i = 0;
  for (int seen = 0; i < text.size(); ++i) {
    if (!continues_character(text[i]) && seen++ == width) break;
  }
  return i;
}

// Words of one paragraph. A word wider than a line is cut into pieces of `width` characters.
std::vector<std::string> words(std::string_view text, int width) {
  std::vector<std::string> result;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && static_cast<unsigned char>(text[i]) > ' ' && text[i] != '\x7f') continue;
    for (std::string_view word = text.substr(start, i - start); !word.empty();) {
      size_t size = prefix_bytes(word, width);
      result.emplace_back(word.substr(0, size));
      word.remove_prefix(size);
    }
    start = i + 1;
  }
  return result;
}

}  // namespace

int display_width(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

std::string pad_left(const std::string& text, int width) {
  return std::string(std::max(0, width - display_width(text)), ' ') + text;
}

std::string pad_right(const std::string& text, int width) {
  return text + std::string(std::max(0, width - display_width(text)), ' ');
}

std::vector<std::string> wrap(std::string_view text, int width) {
  width = std::max(width, 1);
  std::vector<std::string> lines(1);
  for (const std::string& word : words(text, width)) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (display_width(line) + 1 + display_width(word) <= width) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::string shorten(const std::string& text, int characters) {
  if (display_width(text) <= characters) return text;
  return text.substr(0, prefix_bytes(text, std::max(0, characters - 1))) + "…";
}

int digits_for(double smallest) { return smallest >= 100 ? 1 : smallest >= 10 ? 2 : smallest >= 1 ? 3 : 4; }

std::string fixed(double value, int digits) {
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

ByteDisplayUnit unit_for(int64_t largest_bytes) {
  if (largest_bytes >= 1 << 30) return {"GiB", 1 << 30};
  if (largest_bytes >= 1 << 20) return {"MiB", 1 << 20};
  return {"KiB", 1 << 10};
}

std::string ms_text(double ms) { return fixed(ms, std::abs(ms) < 9.95 ? 1 : 0) + " ms"; }

std::string short_ms_text(double ms) {
  if (ms >= 1 || ms <= 0) return ms_text(ms);
  char text[32];
  std::snprintf(text, sizeof text, "%.2g ms", ms);
  return text;
}

std::string seconds_text(std::chrono::milliseconds time) {
  std::string text = fixed(static_cast<double>(time.count()) / 1000, 3);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

}  // namespace memtune
