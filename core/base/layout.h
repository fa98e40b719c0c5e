// Text layout for terminals: widths, padding, wrapping, number formats. Widths count UTF-8 characters, which is right
// for all text that memtune prints.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memtune {

int display_width(std::string_view text);

std::string pad_left(const std::string& text, int width);   // for numbers
std::string pad_right(const std::string& text, int width);  // for words

// Breaks at spaces and inside words longer than `width`. Returns at least one line. Control characters become spaces.
std::vector<std::string> wrap(std::string_view text, int width);

// At most `characters` characters; an ellipsis replaces the rest.
std::string shorten(const std::string& text, int characters);

// Number of decimals that distinguishes numbers as small as `smallest`.
int digits_for(double smallest);

// Fixed notation, for example "1.50".
std::string fixed(double value, int digits);

// The largest unit in which `largest_bytes` is at least 1: GiB on an accelerator, MiB for a toy model.
struct ByteDisplayUnit {
  const char* name;
  double bytes;
};
ByteDisplayUnit unit_for(int64_t largest_bytes);

// "41 ms", "1.8 ms".
std::string ms_text(double ms);
// As ms_text(), and below 1 ms with two significant digits: "0.013 ms".
std::string short_ms_text(double ms);
// "2 s", "0.25 s".
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace memtune
