// What follows the transformer in a folder of sentence-transformers: modules.json and the configs of its modules.
#pragma once

#include <filesystem>

#include "core/model/transformers/transformers_config.h"

namespace memtune::model {

enum class SentencePoolingMethod { mean, first, last };  // over the tokens of a text; first, last: one token of it

struct SentencePoolingConfig {
  SentencePoolingMethod pooling = SentencePoolingMethod::mean;
  bool normalized = false;  // embeddings have length one
};

// `config`: the model's config.json, of which `model` was read. Without a modules.json, language models take the last
// token, others the mean, as sentence-transformers does. Throws UsageError for other modules.
SentencePoolingConfig read_sentence_modules(const std::filesystem::path& config, const TransformersConfig& model);

}  // namespace memtune::model
