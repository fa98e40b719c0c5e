// Laying out text in columns of a terminal. Widths count UTF-8 characters, which is right for what memtune prints.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memtune {

int display_width(std::string_view text);

std::string pad_left(const std::string& text, int width);   // numbers
std::string pad_right(const std::string& text, int width);  // words

// Breaks at spaces; words longer than `width` are broken inside. At least one line; control characters become spaces.
std::vector<std::string> wrap(std::string_view text, int width);

// At most so many characters, an ellipsis for the rest.
std::string shorten(const std::string& text, int characters);

// How many behind the point tell numbers of this size apart.
int digits_for(double smallest);

// "1.50": fixed notation.
std::string fixed(double value, int digits);

// The unit in which `largest_bytes` has a digit before the point: GiB on an accelerator, MiB for a toy model.
struct ByteUnit {
  const char* name;
  double bytes;
};
ByteUnit unit_for(int64_t largest_bytes);

// "41 ms", "1.8 ms".
std::string ms_text(double ms);
// "2 s", "0.25 s".
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace memtune
