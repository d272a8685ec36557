// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tessera/model.h"
#include "tests/random.h"

namespace tessera {
namespace {

struct Bad {
  const char* json;
  const char* part;  // of the message
};

const Bad bad_models[] = {
    {"", "the file is empty"},
    {"   \n", "the file is empty"},
    {"{", "not valid JSON"},
    {"[1, 2]", "expected an object"},
    {"42", "expected an object"},
    {"{}", "architectures is missing"},
    {R"({"architectures":[]})", "architectures must be a list"},
    {R"({"architectures":"Llama"})", "architectures must be a list"},
    {R"({"architectures":["RwkvForCausalLM"]})",
     "architectures names RwkvForCausalLM, which has recurrent layers"},
    {R"({"model_type":"mamba2","hidden_size":64,"num_heads":3})",
     "num_heads 3 times a width of 64 is not the state's 128"},
    {R"({"model_type":"jamba","attn_layer_offset":8})", "attn_layer_offset 8 must be below"},
    {R"({"model_type":"bamba","attn_layer_indices":[99]})", "must be a list of numbers of blocks"},
    {R"({"model_type":"lfm2","layer_types":["conv"]})", "must be a list of 32 words"},
    {R"({"model_type":"qwen3_next","num_hidden_layers":1,"layer_types":["far"]})",
     "layer_types[0] must be one of linear_attention full_attention"},
    {R"({"model_type":"qwen3_next","linear_num_value_heads":17})", "not a multiple of linear_num"},
    {R"({"architectures":["LlavaForConditionalGeneration"],"text_config":{"hiden_size":64}})",
     "text_config: unknown key \"hiden_size\", did you mean \"hidden_size\"?"},
    {R"({"architectures":["LlavaForConditionalGeneration"],"vision_config":{}})",
     "text_config is missing"},
    {R"({"architectures":["LlavaForConditionalGeneration"],"model_type":"gemma3"})",
     "model_type is \"gemma3\", but architectures names LlavaForConditionalGeneration"},
    {R"({"model_type":"llava","text_config":{"model_type":"opera"}})",
     "text_config: model_type names opera, which is no class"},
    {R"({"model_type":"llava","text_config":{"model_type":"gemma3","text_config":{}}})",
     "must name a language model"},
    {R"({"architectures":["LlamaForCausalLM"],"hiden_size":1024})",
     "unknown key \"hiden_size\", did you mean \"hidden_size\"?"},
    {R"({"architectures":["LlamaForCausalLM"],"model_type":"qwen3"})",
     "model_type is qwen3, but architectures names LlamaForCausalLM"},
    {R"({"architectures":["LlamaForCausalLM"],"add_cross_attention":true})",
     "attention to an encoder is not built"},
    {R"({"architectures":["LlamaForCausalLM"],"is_encoder_decoder":true})", "a decoder"},
    {R"({"architectures":["FooForConditionalGeneration"],"text_config":{"hidden_size":64}})",
     "text_config is an object"},
    {R"({"architectures":["GPT2LMHeadModel"],"n_layer":2,"num_hidden_layers":3})",
     "n_layer are the same, but differ"},
    {R"({"architectures":["Qwen3MoeForCausalLM"],"mlp_only_layers":[99]})",
     "mlp_only_layers must be a list of numbers of blocks"},
    {R"({"architectures":["Qwen3MoeForCausalLM"],"mlp_only_layers":"all"})",
     "mlp_only_layers must be a list of numbers of blocks"},
    {R"({"architectures":["DeepseekV3ForCausalLM"],"kv_lora_rank":-1})",
     "kv_lora_rank must be 1 to"},
    {R"({"architectures":["DeepseekV3ForCausalLM"],"kv_lora_rank":1000000000})",
     "elements are more than 1e+14, the most that a model may have here; the largest is parameter"},
    {R"({"architectures":["Gemma2ForCausalLM"],"layer_types":["far"],"num_hidden_layers":1})",
     "layer_types[0] must be full_attention"},
    {R"({"model_type":"qwen2","layer_types":["linear_attention"],"num_hidden_layers":1})",
     "layer_types[0] must be full_attention"},
    {R"({"architectures":["BertModel"],"hidden_size":770})", "hidden_size 770 is not a multiple"},
    {R"({"architectures":["BertModel"],"hidden_dropout_prob":7})", "a number from 0 to 1"},
    {R"({"architectures":["ViTModel"],"patch_size":300})",
     "patch_size 300 is more than image_size"},
    {R"({"architectures":["T5Model"],"num_layers":1000000})", "num_layers is 1000000, more than"},
    {R"({"architectures":["LlamaForCausalLM"],"hidden_size":"big"})",
     "hidden_size must be an integer"},
    {R"({"architectures":["LlamaForCausalLM"],"hidden_size":4096.5})",
     "hidden_size must be an integer"},
    {R"({"architectures":["LlamaForCausalLM"],"hidden_size":-1})", "hidden_size must be 1 to"},
    {R"({"architectures":["LlamaForCausalLM"],"vocab_size":0})", "vocab_size must be 1 to"},
    {R"({"architectures":["LlamaForCausalLM"],"vocab_size":99999999999999999999})",
     "vocab_size must be"},
    {R"({"architectures":["LlamaForCausalLM"],"num_hidden_layers":1000001})",
     "num_hidden_layers is"},
    {R"({"architectures":["LlamaForCausalLM"],"num_attention_heads":7})",
     "hidden_size 4096 is not a multiple"},
    {R"({"architectures":["LlamaForCausalLM"],"num_key_value_heads":5})",
     "num_attention_heads 32 is not a multiple"},
    {R"({"architectures":["LlamaForCausalLM"],"tie_word_embeddings":"yes"})",
     "tie_word_embeddings must be true or false"},
    {R"({"architectures":["LlamaForCausalLM"],"torch_dtype":"int3"})",
     "torch_dtype must be a dtype"},
    {R"({"architectures":["LlamaForCausalLM"],"torch_dtype":7})", "torch_dtype must be a string"},
    {R"({"architectures":["MixtralForCausalLM"],"num_experts_per_tok":9})",
     "num_experts_per_tok 9 is more than"},
    {R"({"architectures":["GPT2LMHeadModel"],"n_embd":770})",
     "n_embd 770 is not a multiple of n_head 12"},
    {R"({"architectures":["LlamaForCausalLM"],)"
     R"("hidden_size":1099511627776,"intermediate_size":1099511627776})",
     "elements are more than 1e+14, the most that a model may have here; the largest is parameter"},
    {R"({"tessera_model":2,"name":"x","root":{"class":"N"}})", "tessera_model must be 1"},
    {R"({"tessera_model":1,"root":{"class":"N"}})", "name is missing"},
    {R"({"tessera_model":1,"name":"x"})", "root is missing"},
    {R"({"tessera_model":1,"name":"x","root":[]})", "root: expected an object"},
    {R"({"tessera_model":1,"name":"x","root":{}})", "class is missing"},
    {R"({"tessera_model":1,"name":"x","rooot":{}})", "did you mean \"root\"?"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N","parameters":[{"name":"w"}]}})",
     "root.parameters[0].shape must be a list"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N",)"
     R"("parameters":[{"name":"w","shape":[-1]}]}})",
     "not negative"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N",)"
     R"("parameters":[{"name":"w","shape":[4294967296,4294967296]}]}})",
     "elements are more than 1e+14, the most that a model may have here; the largest is parameter"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N",)"
     R"("parameters":[{"name":"w","shape":[1]},{"name":"w","shape":[1]}]}})",
     "used twice"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N",)"
     R"("modules":[{"name":"a.b","class":"L"}]}})",
     "contain a dot"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N","modules":[{"class":"L"}]}})",
     "root.modules[0]: name is missing"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N","flops_per_sample":[1,2,3,4]}})",
     "flops_per_sample must be a number"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"forward":["a"]})",
     "forward[0] names \"a\", which is no module"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"forward":"a"})",
     "forward must be a list of strings"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"units":[""]})", "units[0] is the root"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N","outputs":0}})", "outputs"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N","outputs":2000}})", "at most 1000"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"graphs":[]})",
     "graphs must name lists"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"graphs":{"a,b":[]}})",
     "names a graph \"a,b\""},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"graphs":{"s":["a"]}})",
     "graphs.s[0] names \"a\", which is no module"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N","modules":[{"name":"c","class":"L",)"
     R"("modules":[{"name":"d","class":"L"}]}]},"graphs":{"s":["c"]}})",
     "lists \"c.d\" and also \"c\", which contains it"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"reads":[["a"]]})",
     "reads[0] must be a module path and a parameter name"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"reads":[["","w"]]})",
     "reads[0] names \"w\", which is no parameter"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N","modules":[{"name":"a","class":"L",)"
     R"("parameters":[{"name":"w","shape":[1]}]}]},"reads":[["a","a.w"]]})",
     "reads[0] says that \"a\" reads \"a.w\", which it has anyway"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N","parameters":[{"name":"w",)"
     R"("shape":[1]}]},"returns":[["","w"]]})",
     "returns[0] is the root, which has no module around it"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N","parameters":[{"name":"w",)"
     R"("shape":[1]}],"modules":[{"name":"a","class":"L"}]},"returns":[["a","w"]]})",
     "returns[0] says that \"a\" returns \"w\", which it does not have"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"class_bases":["N"]})",
     "class_bases must be like"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"class_bases":{"N":"L"}})",
     "class_bases[\"N\"] must be a list of names"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"class_bases":{"M":["L"]}})",
     "class_bases[\"M\"] is the class of no module"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"ties":[["a"]]})",
     "ties[0] must be a pair"},
    {R"({"tessera_model":1,"name":"x","root":{"class":"N"},"ties":[["a","b"]]})",
     "names \"a\", which is no parameter"},
};

TEST_CASE("a bad model gives one sentence that names file and key", "[model][errors]") {
  for (const Bad& bad : bad_models) {
    INFO(bad.json);
    const auto model = parse_model(bad.json, "some/config.json");
    REQUIRE_FALSE(model.ok());
    INFO(model.status().message());
    CHECK(model.status().message().find("some/config.json") == 0);
    CHECK(model.status().message().find(bad.part) != std::string::npos);
    CHECK(model.status().message().find('\n') == std::string::npos);
  }
}

TEST_CASE("a tree and a config.json may have as many elements", "[model][errors]") {
  const auto tree = [](const char* kind, const std::string& shape) {
    return parse_model(R"({"tessera_model":1,"name":"x","root":{"class":"N",")" +
                           std::string(kind) + R"(":[{"name":"w","shape":)" + shape + "}]}}",
                       "file");
  };
  const std::string ten_million = "10000000";
  CHECK(tree("parameters", "[" + ten_million + "," + ten_million + "]").ok());
  CHECK(tree("parameters", "[0,4294967296,4294967296]").ok());
  const std::string over = "[" + ten_million + ",10000001]";
  const std::string sentence =
      "file: 1e+14 elements are more than 1e+14, the most that a model may have here; the largest "
      "is ";
  CHECK(tree("parameters", over).status().message() ==
        sentence + "parameter \"w\", [10000000, 10000001]: check its sizes");
  CHECK(tree("buffers", over).status().message() ==
        sentence + "buffer \"w\", [10000000, 10000001]: check its sizes");
  // What was 2^56 for trees.
  CHECK_FALSE(tree("parameters", "[72057594037927936]").ok());
  CHECK_FALSE(tree("parameters", "[4294967296,4294967296,0]").ok());
  const auto llama = [](const std::string& vocabulary) {
    return parse_model(R"({"architectures":["LlamaForCausalLM"],"num_hidden_layers":1,)"
                       R"("hidden_size":1024,"intermediate_size":64,"num_attention_heads":8,)"
                       R"("tie_word_embeddings":true,"vocab_size":)" +
                           vocabulary + "}",
                       "file");
  };
  CHECK(llama("90000000000").ok());
  CHECK(llama("100000000000")
            .status()
            .message()
            .find("elements are more than 1e+14, the most that a model may have here") !=
        std::string::npos);
}

TEST_CASE("a limit of Infinity, as Python writes it, is a number", "[model]") {
  const auto limited = [](const std::string& limits) {
    return parse_model(R"({"model_type":"mamba2","num_hidden_layers":1,"name":"Infinity",)"
                       R"("time_step_limit":)" +
                           limits + "}",
                       "file");
  };
  CHECK(limited("[0.0, Infinity]").ok());
  CHECK(limited("[-Infinity, 1]").ok());
  CHECK(limited("[0.0, Infinite]").status().message().find("file: not valid JSON") == 0);
  CHECK(limited("[0.0, NaN]").status().message().find("file: not valid JSON") == 0);
}

TEST_CASE("a missing file and a directory are told apart", "[model][errors]") {
  CHECK(load_model("/no/such/file.json").status().message() ==
        "/no/such/file.json: cannot be read: check the path and its permissions");
  CHECK(load_model(TESSERA_SOURCE_DIR).status().message().find("is a directory") !=
        std::string::npos);
}

TEST_CASE("damaged descriptions give a model or one sentence, never a crash", "[model][errors]") {
  std::string sources[2];
  const char* names[] = {"tiny.json", "gpt2.json"};
  for (int k = 0; k < 2; ++k) {
    std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/examples/models/" + names[k]);
    std::ostringstream text;
    text << file.rdbuf();
    sources[k] = text.str();
    REQUIRE(sources[k].size() > 100);
  }
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    INFO("seed=" << seed);
    test::Random random(seed);
    std::string text = sources[seed % 2];
    if (random.chance(30))
      text.resize(static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size()))));
    for (std::int64_t edits = random.below(6); edits > 0 && !text.empty(); --edits) {
      const auto at =
          static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size())));
      const char* tokens = "{}[]:,\"-0123456789.eEtfn \\";
      text[at] =
          random.chance(50) ? tokens[random.below(26)] : static_cast<char>(random.below(256));
    }
    const auto model = parse_model(text, "damaged.json");
    if (model.ok()) {
      CHECK(model->modules.size() >= 1);
    } else {
      CHECK(model.status().message().find('\n') == std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tessera
