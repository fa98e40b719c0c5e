// Laying out text in columns of a terminal. Widths count UTF-8 characters, which is right for what memtune prints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace memtune::report {

int display_width(std::string_view text);

std::string pad_left(const std::string& text, int width);   // numbers
std::string pad_right(const std::string& text, int width);  // words

// Breaks at spaces; words longer than `width` are broken inside. At least one line; control characters become spaces.
std::vector<std::string> wrap(std::string_view text, int width);

// "1.50": fixed notation.
std::string fixed(double value, int digits);

// "41 ms", "1.8 ms".
std::string ms_text(double ms);

}  // namespace memtune::report
