// The weights of a model of transformers, by the names that it gives them: out of the safetensors files beside its
// config.json, or made up where there are none.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/TensorBody.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/safetensors/reader.h"

namespace memtune::frontend {

enum class Filling { noise, zeros, ones };  // of made-up weights

class TransformersWeights {
 public:
  // Those of `options`, whatever type the files have. UsageError for files that are missing or none.
  TransformersWeights(const std::vector<std::filesystem::path>& files, at::TensorOptions options, double deviation,
                      int64_t seed);

  // A parameter. UsageError when files are there and it is not in them, or has another shape.
  at::Tensor make(const std::string& name, at::IntArrayRef shape, Filling filling);

  // What to tell when all are made: that there was no file, or what of the files nothing asked for; "": nothing.
  std::string note() const;

 private:
  struct Place {
    const safetensors::Reader* file = nullptr;
    const safetensors::Entry* entry = nullptr;
  };

  at::Tensor read(const std::string& name, at::IntArrayRef shape);
  at::Tensor made_up(at::IntArrayRef shape, Filling filling);

  std::vector<std::unique_ptr<safetensors::Reader>> files_;
  std::map<std::string, Place> places_;
  std::set<std::string> asked_for_;
  at::TensorOptions options_;
  double deviation_;
  int64_t seed_;
  at::Tensor noise_;  // every weight is filled with it, over and over: drawing one number a weight takes seconds
};

}  // namespace memtune::frontend
