// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's configuration: its defaults, aliases, old forms and rules.
#include <catch2/catch.hpp>

#include "tessera/deepspeed.h"

namespace tessera {
namespace {

DeepSpeedConfig read(const std::string& json, Rank ranks = 8) {
  auto config = parse_deepspeed_config(json, "ds.json", ranks);
  INFO(json);
  INFO(config.status().message());
  REQUIRE(config.ok());
  return *config;
}

std::string message(const std::string& json, Rank ranks = 8) {
  return parse_deepspeed_config(json, "ds.json", ranks).status().message();
}

std::string zero(const std::string& keys) { return R"({"zero_optimization": {)" + keys + "}}"; }

TEST_CASE("an empty configuration is data parallelism in float32", "[deepspeed]") {
  const DeepSpeedConfig c = read("{}");
  CHECK(c.stage == 0);
  CHECK(name_of(c.scheme) == "replicate");
  CHECK(compute_dtype(c.scheme) == DType::float32);
  CHECK(!c.dtype);
  CHECK(!c.micro_batch);
  CHECK(!c.gradient_clipping);
  CHECK(c.without_meaning.empty());
}

TEST_CASE("each stage is a scheme with DeepSpeed's defaults", "[deepspeed]") {
  CHECK(name_of(read(zero(R"("stage": 1)")).scheme) == "zero1");
  const DeepSpeedConfig second = read(zero(R"("stage": 2)"));
  const auto& two = std::get<Zero12Options>(second.scheme);
  CHECK(two.stage == 2);
  CHECK(two.reduce_bucket == Numel{500'000'000});
  CHECK(two.allgather_bucket == Numel{500'000'000});
  CHECK(!two.overlap_comm);
  CHECK(two.reduce_scatter);
  CHECK(!two.round_robin_gradients);
  const DeepSpeedConfig third = read(zero(R"("stage": 3)"));
  const auto& three = std::get<Zero3Options>(third.scheme);
  CHECK(three.prefetch_bucket == Numel{50'000'000});
  CHECK(three.persistence_threshold == Numel{100'000});
  CHECK(three.max_live_parameters == Numel{1'000'000'000});
  CHECK(three.max_reuse_distance == Numel{1'000'000'000});
  CHECK(three.reduce_bucket == Numel{500'000'000});
  CHECK(three.sub_group_size == Numel{1'000'000'000});
  CHECK(third.offload_param.device == DeepSpeedOffload::Device::none);
  CHECK(third.offload_param.buffer_count == 5);
  CHECK(third.offload_optimizer.buffer_count == 4);
  CHECK(third.aio.block_size == Bytes{1048576});
}

TEST_CASE("sizes are read under both of their names, also as 5e8", "[deepspeed]") {
  const std::string prefix = GENERATE("stage3_", "");
  const auto c =
      read(zero("\"stage\": 3, \"" + prefix + R"(prefetch_bucket_size": 1e6, ")" + prefix +
                R"(max_live_parameters": 2e9, ")" + prefix + R"(max_reuse_distance": 7, ")" +
                prefix + R"(param_persistence_threshold": 0, ")" + prefix +
                R"(model_persistence_threshold": 9223372036854775807,
                           "reduce_bucket_size": 3, "sub_group_size": 4)"));
  const auto& o = std::get<Zero3Options>(c.scheme);
  CHECK(o.prefetch_bucket == Numel{1'000'000});
  CHECK(o.max_live_parameters == Numel{2'000'000'000});
  CHECK(o.max_reuse_distance == Numel{7});
  CHECK(o.persistence_threshold == Numel{0});
  CHECK(o.reduce_bucket == Numel{3});
  CHECK(o.sub_group_size == Numel{4});
}

TEST_CASE("two names of one key may agree, not differ", "[deepspeed]") {
  read(zero(R"("stage": 3, "prefetch_bucket_size": 5, "stage3_prefetch_bucket_size": 5)"));
  CHECK(
      message(zero(R"("stage": 3, "prefetch_bucket_size": 5, "stage3_prefetch_bucket_size": 6)")) ==
      "ds.json: zero_optimization.prefetch_bucket_size is 5 but "
      "zero_optimization.stage3_prefetch_bucket_size is 6: they mean the same, leave one out");
}

TEST_CASE("deprecated forms mean what they meant", "[deepspeed]") {
  CHECK(read(R"({"zero_optimization": true})").stage == 1);
  CHECK(read(R"({"zero_optimization": false})").stage == 0);
  const auto c = read(zero(
      R"("stage": 3, "cpu_offload": true, "cpu_offload_param": true,
         "cpu_offload_use_pin_memory": true)"));
  CHECK(c.offload_param.device == DeepSpeedOffload::Device::cpu);
  CHECK(c.offload_optimizer.device == DeepSpeedOffload::Device::cpu);
  CHECK(c.without_meaning ==
        std::vector<std::string>{"zero_optimization.cpu_offload_use_pin_memory (host memory always "
                                 "is pinned here)"});
}

// The flag won without a word, whatever device the section named.
TEST_CASE("a flag of old beside the section that took its place is refused", "[deepspeed]") {
  CHECK(message(zero(R"("stage": 3, "cpu_offload": true,
                        "offload_optimizer": {"device": "nvme", "nvme_path": "/x"})"))
            .find("offload_optimizer is given, too") != std::string::npos);
  CHECK(message(zero(R"("stage": 3, "cpu_offload_param": true, "offload_param": {})"))
            .find("offload_param is given, too") != std::string::npos);
  CHECK(message(zero(R"("stage": 3, "cpu_offload": false,
                        "offload_optimizer": {"device": "cpu"})"))
            .empty());
}

TEST_CASE("dtypes come from fp16, bf16 and communication_data_type", "[deepspeed]") {
  const auto c = read(
      R"({"bf16": {"enabled": true}, "communication_data_type": "fp32",
          "zero_optimization": {"stage": 2}})");
  CHECK(c.dtype == DType::bfloat16);
  const auto& o = std::get<Zero12Options>(c.scheme);
  CHECK(o.param_dtype == DType::bfloat16);
  CHECK(o.reduce_dtype == DType::float32);
  CHECK(read(R"({"fp16": {"enabled": true, "loss_scale": 0}})").dtype == DType::float16);
  CHECK(read(R"({"bfloat16": {"enabled": true}})").dtype == DType::bfloat16);
  CHECK(message(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})") ==
        "ds.json: bf16.enabled and fp16.enabled are true: choose one of them");
}

TEST_CASE("batch sizes complete each other and must agree", "[deepspeed]") {
  const std::string train = R"("train_batch_size": 64)";
  const std::string micro = R"("train_micro_batch_size_per_gpu": 4)";
  const std::string steps = R"("gradient_accumulation_steps": 2)";
  for (const std::string& given : {train + "," + micro, train + "," + steps, micro + "," + steps,
                                   train + "," + micro + "," + steps}) {
    const auto c = read("{" + given + "}");
    CHECK(c.micro_batch == 4);
    CHECK(c.accumulation == 2);
  }
  const auto alone = read("{" + train + "}");
  CHECK(alone.micro_batch == 8);
  CHECK(alone.accumulation == 1);
  CHECK(!read("{" + micro + "}").accumulation);
  CHECK(message(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 3})") ==
        "ds.json: train_batch_size is 64, but train_micro_batch_size_per_gpu 3 * "
        "gradient_accumulation_steps 2 * 8 ranks is 48");
  CHECK(message(R"({"train_batch_size": 4})") ==
        "ds.json: train_batch_size is 4, which 8 ranks cannot share evenly");
}

TEST_CASE("what Hugging Face fills in counts as not given", "[deepspeed]") {
  const auto c = read(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
                          "stage3_prefetch_bucket_size": "auto"}})");
  CHECK(!c.micro_batch);
  CHECK(!c.dtype);
  CHECK(c.adam.learning_rate == AdamOptions{}.learning_rate);
  CHECK(std::get<Zero3Options>(c.scheme).reduce_bucket == Numel{500'000'000});
}

TEST_CASE("the optimizer's parameters are AdamW's", "[deepspeed]") {
  const auto c = read(R"({"optimizer": {"type": "Adam", "params":
    {"lr": 0.5, "betas": [0.1, 0.2], "eps": 0.25, "weight_decay": 0.125}}})");
  CHECK(c.adam.learning_rate == 0.5F);
  CHECK(c.adam.beta1 == 0.1F);
  CHECK(c.adam.beta2 == 0.2F);
  CHECK(c.adam.epsilon == 0.25F);
  CHECK(c.adam.weight_decay == 0.125F);
  CHECK(c.without_meaning.empty());
  CHECK(message(R"({"optimizer": {"params": {"betas": [0.9]}}})").find("two numbers") !=
        std::string::npos);
}

TEST_CASE("ZeRO++ is part of stage 3", "[deepspeed]") {
  const std::string keys = R"("zero_hpz_partition_size": 8, "zero_quantized_weights": true,)"
                           R"("zero_quantized_gradients": true)";
  const auto c = read(zero(R"("stage": 3, )" + keys));
  const ZeroPlusPlus& o = std::get<Zero3Options>(c.scheme).plus_plus;
  CHECK(o.secondary_group == 8);
  CHECK(o.quantized_weights);
  CHECK(o.quantized_gradients);
  CHECK(c.without_meaning.empty());
  CHECK(read(zero(R"("stage": 2, )" + keys)).without_meaning.size() == 3);
}

TEST_CASE("offload sections and aio are read", "[deepspeed]") {
  const auto c = read(R"({"aio": {"block_size": 262144, "queue_depth": 32, "thread_count": 2,
             "use_gds": true},
    "zero_optimization": {"stage": 3,
      "offload_param": {"device": "nvme", "nvme_path": "/nvme", "buffer_count": 6,
                        "buffer_size": 1e9, "max_in_cpu": 0},
      "offload_optimizer": {"device": "cpu", "pin_memory": true, "pipeline_read": true,
                            "ratio": 0.3}}})");
  CHECK(c.offload_param.device == DeepSpeedOffload::Device::nvme);
  CHECK(c.offload_param.nvme_path == "/nvme");
  CHECK(c.offload_param.buffer_count == 6);
  CHECK(c.offload_param.buffer_size == Numel{1'000'000'000});
  CHECK(c.offload_optimizer.device == DeepSpeedOffload::Device::cpu);
  CHECK(c.offload_optimizer.pipeline_read);
  CHECK(c.offload_optimizer.ratio == 0.3);
  CHECK(c.aio.queue_depth == 32);
  CHECK(c.aio.use_gds);
  CHECK(
      message(zero(R"("stage": 3, "offload_param": {"device": "nvme"})")) ==
      "ds.json: zero_optimization.offload_param.nvme_path is missing: device nvme needs a folder");
  CHECK(message(zero(R"("stage": 2, "offload_param": {"device": "cpu"})")) ==
        "ds.json: zero_optimization.offload_param is for stage 3, found stage 2");
}

TEST_CASE("keys that act nowhere here are listed with what they would have changed",
          "[deepspeed]") {
  const auto c = read(R"({"aio": {"single_submit": true, "overlap_events": false},
    "zero_optimization": {"stage": 3,
      "offload_param": {"device": "cpu", "max_in_cpu": 7, "pin_memory": true},
      "offload_optimizer": {"device": "cpu", "pin_memory": false, "fast_init": true}}})");
  std::string all;
  for (const std::string& line : c.without_meaning) all += line + "\n";
  for (const std::string key :
       {"aio.single_submit (", "aio.overlap_events (", "offload_param.max_in_cpu (",
        "offload_param.pin_memory (", "offload_optimizer.pin_memory (",
        "offload_optimizer.fast_init ("}) {
    INFO(key << " in " << all);
    CHECK(all.find(key) != std::string::npos);
  }
}

TEST_CASE("every key of a stage that was not chosen is listed", "[deepspeed]") {
  const std::vector<std::string> of_stage_3 = {"stage3_prefetch_bucket_size", "max_reuse_distance",
                                               "sub_group_size", "mics_shard_size",
                                               "zero_hpz_partition_size"};
  for (const std::string& key : of_stage_3) {
    for (const std::string stage : {"0", "1", "2"}) {
      const auto c = read(zero("\"stage\": " + stage + ", \"" + key + "\": 1"));
      CHECK(c.without_meaning == std::vector<std::string>{"zero_optimization." + key});
    }
  }
  CHECK(read(zero(R"("stage": 0, "reduce_bucket_size": 1)")).without_meaning.size() == 1);
  CHECK(read(zero(R"("stage": 3, "reduce_bucket_size": 1)")).without_meaning.empty());
}

TEST_CASE("unknown keys are named with the nearest known one", "[deepspeed]") {
  CHECK(message(zero(R"("stage": 3, "stage3_prefetch_bucket_sise": 5)")) ==
        "ds.json: zero_optimization.stage3_prefetch_bucket_sise is no key of DeepSpeed, did you "
        "mean \"stage3_prefetch_bucket_size\"?");
  CHECK(read(R"({"gradient_cliping": 1})").unknown ==
        std::vector<std::string>{"gradient_cliping (did you mean \"gradient_clipping\"?)"});
  CHECK(message(zero(R"("stage": 3, "offload_param": {"devise": "cpu"})")).find("\"device\"") !=
        std::string::npos);
  CHECK(read(R"({"qqqqqqqq": 1})").unknown == std::vector<std::string>{"qqqqqqqq"});
}

TEST_CASE("known keys without meaning are listed", "[deepspeed]") {
  const auto c = read(R"({"steps_per_print": 10, "scheduler": {"type": "WarmupLR"},
    "zero_optimization": {"stage": 2, "contiguous_gradients": true, "legacy_stage1": false}})");
  CHECK(c.without_meaning == std::vector<std::string>{"zero_optimization.contiguous_gradients",
                                                      "zero_optimization.legacy_stage1",
                                                      "steps_per_print"});
  CHECK(c.scheduler == "WarmupLR");
}

TEST_CASE("values of the wrong type or range are refused by name", "[deepspeed]") {
  CHECK(message(zero(R"("stage": 4)")) ==
        "ds.json: zero_optimization.stage must be a whole number of 0 to 3, found 4");
  CHECK(message(zero(R"("stage": 2, "reduce_bucket_size": -1)"))
            .find("of 0 to 1125899906842624, found -1") != std::string::npos);
  CHECK(message(zero(R"("stage": 2, "reduce_bucket_size": 1.5)")).find("found 1.5") !=
        std::string::npos);
  CHECK(message(zero(R"("stage": 2, "allgather_bucket_size": 1001)")) ==
        "ds.json: zero_optimization.allgather_bucket_size must be a multiple of 2, found 1001");
  CHECK(message(zero(R"("stage": 2, "overlap_comm": 1)")).find("true or false") !=
        std::string::npos);
  CHECK(message(R"({"zero_optimization": [3]})").find("must be an object") != std::string::npos);
  CHECK(message("[]") == "ds.json: the file must be an object {...}, found []");
  CHECK(message("{").find("not valid JSON") != std::string::npos);
  CHECK(load_deepspeed_config("/nowhere/ds.json", 8).status().code() == Code::io_error);
}

}  // namespace
}  // namespace tessera
