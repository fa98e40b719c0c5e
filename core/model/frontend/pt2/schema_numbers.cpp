#include "core/model/frontend/pt2/schema_numbers.h"

#include <map>
#include <string>

#include "core/base/error.h"

namespace memtune::frontend {
namespace {

template <typename T>
T find(const std::map<int64_t, T>& table, int64_t number, const char* what) {
  const auto found = table.find(number);
  if (found == table.end())
    throw UsageError(std::string("it has an unknown ") + what + ", number " + std::to_string(number));
  return found->second;
}

}  // namespace

at::ScalarType scalar_type_of(int64_t number) {
  static const std::map<int64_t, at::ScalarType> types = {{1, at::kByte},
                                                          {2, at::kChar},
                                                          {3, at::kShort},
                                                          {4, at::kInt},
                                                          {5, at::kLong},
                                                          {6, at::kHalf},
                                                          {7, at::kFloat},
                                                          {8, at::kDouble},
                                                          {9, at::kComplexHalf},
                                                          {10, at::kComplexFloat},
                                                          {11, at::kComplexDouble},
                                                          {12, at::kBool},
                                                          {13, at::kBFloat16},
                                                          {28, at::kUInt16},
                                                          {29, at::kFloat8_e4m3fn},
                                                          {30, at::kFloat8_e5m2},
                                                          {31, at::kFloat8_e4m3fnuz},
                                                          {32, at::kFloat8_e5m2fnuz}};
  return find(types, number, "dtype");
}

at::Layout layout_of(int64_t number) {
  static const std::map<int64_t, at::Layout> layouts = {{1, at::kSparse},    {2, at::kSparseCsr}, {3, at::kSparseCsc},
                                                        {4, at::kSparseBsr}, {5, at::kSparseBsc}, {6, at::kMkldnn},
                                                        {7, at::kStrided}};
  return find(layouts, number, "layout");
}

at::MemoryFormat memory_format_of(int64_t number) {
  static const std::map<int64_t, at::MemoryFormat> formats = {{1, at::MemoryFormat::Contiguous},
                                                              {2, at::MemoryFormat::ChannelsLast},
                                                              {3, at::MemoryFormat::ChannelsLast3d},
                                                              {4, at::MemoryFormat::Preserve}};
  return find(formats, number, "memory format");
}

}  // namespace memtune::frontend
