#include "core/answer/trainer/key_lines.h"

#include <algorithm>

#include "core/answer/trainer/flow_text.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using Lines = std::vector<std::string>;

// Whether the line has the key, quoted or not, followed by ':', '=' or ']'.
bool has_key(std::string line, const std::string& key, bool at_its_begin) {
  if (line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
  const size_t first = line.find_first_not_of(" \t{\"'-");
  if (first == std::string::npos || line[first] == '#') return false;
  for (size_t at = line.find(key); at != std::string::npos; at = line.find(key, at + 1)) {
    if (at_its_begin && at != first) return false;
    const size_t behind = line.find_first_not_of(" \t\"'", at + key.size());
    const bool begins = at == 0 || std::string_view(" \t{,\"'.[").find(line[at - 1]) != std::string_view::npos;
    if (begins && behind != std::string::npos && std::string_view(":=]").find(line[behind]) != std::string_view::npos)
      return true;
  }
  return false;
}

// Whether the line is the head of a TOML table. The head has the full path, and a key of that name may come earlier in
// the file.
bool is_table(const std::string& line, std::span<const std::string> path) {
  const std::string text = trim(line.substr(0, line.find('#')));
  return text == "[" + join(path, ".") + "]";
}

size_t indent_with_tabs(const std::string& line) { return line.find_first_not_of(" \t"); }

}  // namespace

size_t line_of(const std::string& text, std::span<const std::string> path) {
  const Lines lines = split(text, '\n');
  size_t from = 0, found = 0;
  for (size_t depth = 1; depth < path.size(); ++depth)
    for (size_t at = 0; at < lines.size(); ++at)
      if (is_table(lines[at], path.subspan(0, depth))) {
        from = found = at + 1;
        path = path.subspan(depth);
        depth = path.size();
        break;
      }
  const bool json =
      text.find_first_not_of(" \t\r\n") != std::string::npos && text[text.find_first_not_of(" \t\r\n")] == '{';
  for (size_t depth = 0; depth < path.size(); ++depth) {
    const bool top = depth == 0 && found == 0 && !json;
    size_t at = from;
    while (at < lines.size() && !((!top || indent_with_tabs(lines[at]) == 0) && has_key(lines[at], path[depth], top)))
      ++at;
    if (at == lines.size()) return found;
    found = at + 1;
    from = at;
  }
  return found;
}

std::string with_comments(const std::string& text, const Lines& comments,
                          const std::vector<std::vector<std::string>>& paths) {
  const size_t mark = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  Lines lines;
  bool earlier = false;  // inside the comments of an earlier export
  for (std::string& line : split(text.substr(mark), '\n')) {
    earlier = line.starts_with("# memtune ") || (earlier && line.starts_with('#'));
    if (!earlier) lines.push_back(std::move(line));
  }
  size_t first = lines.size();
  const std::string rest = join(lines, "\n");
  for (const std::vector<std::string>& path : paths) {
    const size_t line = line_of(rest, path);
    if (line > 0) first = std::min(first, line - 1);
  }
  if (first == lines.size() && !lines.empty() && lines.back().empty()) --first;
  lines.insert(lines.begin() + std::ptrdiff_t(first), comments.begin(), comments.end());
  return text.substr(0, mark) + join(lines, "\n");
}

}  // namespace memtune::trainer
