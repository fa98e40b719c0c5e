// The weights of a model of transformers, by the names that it gives them: out of the safetensors files beside its
// config.json, or made up where there are none. On the meta device they have shapes, and no file is read beyond its
// header.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/TensorBody.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/transformers_config.h"
#include "core/safetensors/reader.h"

namespace memtune::frontend {

enum class Filling { noise, zeros, ones };  // of made-up weights

class TransformersWeights {
 public:
  // Those of `options`, whatever type the files have. UsageError for files that are missing or none.
  TransformersWeights(const std::vector<std::filesystem::path>& files, const config::TransformersConfig& config,
                      at::TensorOptions options, int64_t seed);

  // A parameter. UsageError when files are there and it is not in them, or has another shape.
  at::Tensor make(const std::string& name, at::IntArrayRef shape, Filling filling);

  // The same of the matrices of all experts, [experts, out, in]. Where files have those of each expert for itself,
  // under "<path>.<expert>.<part>.weight", they are put together: `parts` one below the other.
  at::Tensor make_stacked(const std::string& name, at::IntArrayRef shape, const std::vector<std::string_view>& parts);

  // What to tell when all are made: that there was no file, or what of the files nothing asked for; "": nothing.
  std::string note() const;

 private:
  struct Place {
    const safetensors::Reader* file = nullptr;
    const safetensors::Entry* entry = nullptr;
  };

  const Place* find(const std::string& name);
  const Place& place_of(const std::string& name);
  at::Tensor read(const Place& place, const std::string& name, at::IntArrayRef shape);
  at::Tensor read(const std::string& name, at::IntArrayRef shape) { return read(place_of(name), name, shape); }
  at::Tensor made_up(at::IntArrayRef shape, Filling filling);

  std::vector<std::unique_ptr<safetensors::Reader>> files_;
  std::map<std::string, Place> places_;                       // by the names in the files
  std::vector<std::pair<std::string, std::string>> renamed_;  // what a model's name may have, and files in its place
  std::set<std::string> asked_for_;
  at::TensorOptions options_;
  double deviation_;
  int64_t seed_;
  at::Tensor noise_;  // every weight is filled with it, over and over: drawing one number a weight takes seconds
};

}  // namespace memtune::frontend
