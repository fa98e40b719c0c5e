#include "core/plan/facts/operator_class_and_argument_roles.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/base/text.h"

namespace memtune::plan {
namespace {

constexpr std::array kClassNames = {"unknown",   "matmul", "convolution", "attention",  "recurrent", "linear_algebra",
                                    "embedding", "order",  "scatter",     "collective", "norm",      "elementwise",
                                    "reduction", "window", "copy",        "view",       "host"};

// clang-format off
struct Group {
  OpClass op_class;
  const char* names;
};
const Group kGroups[] = {
    {OpClass::matmul,
     "linear mm matmul bmm addmm einsum baddbmm addbmm bilinear mv addmv inner tensordot chain_matmul linalg_matmul "
     "linalg_multi_dot linalg_vecdot _trilinear _addmm_activation _int_mm _scaled_mm _scaled_mm_v2 _scaled_addmm "
     "_grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2 _weight_int4pack_mm _weight_int4pack_mm_for_cpu "
     "_weight_int4pack_mm_with_scales_and_zeros _weight_int8pack_mm _dyn_quant_matmul_4bit _mixed_dtypes_linear "
     "fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight "
     "fbgemm_linear_int8_weight_fp32_activation linear_cross_entropy chunked_log_probs "
     "mkldnn_linear smm sspaddmm hspmm _sparse_mm _sparse_addmm "
     "_sparse_mm_reduce_impl sparse_sampled_addmm _sparse_sparse_matmul _cslt_sparse_mm _sparse_semi_structured_linear "
     "_sparse_semi_structured_mm _sparse_semi_structured_addmm cdist _cdist_forward _euclidean_dist pdist "
     "_pdist_forward cov corrcoef _compute_linear_combination linear_4bit linear_8bit"},
    {OpClass::convolution,
     "convolution _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d "
     "_convolution_mode convolution_overrideable conv_depthwise3d _conv_depthwise2d cudnn_convolution "
     "cudnn_convolution_relu cudnn_convolution_add_relu cudnn_convolution_transpose miopen_convolution "
     "miopen_convolution_relu miopen_convolution_add_relu miopen_convolution_transpose miopen_depthwise_convolution "
     "mkldnn_convolution _mps_convolution _mps_convolution_transpose _nnpack_spatial_convolution slow_conv3d "
     "slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d "
     "_slow_conv2d_forward thnn_conv2d"},
    {OpClass::attention,
     "scaled_dot_product_attention _scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps "
     "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
     "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
     "_scaled_dot_product_fused_attention_overrideable _flash_attention_forward "
     "_flash_attention_forward_no_dropout_inplace _efficient_attention_forward _cudnn_attention_forward "
     "_cudnn_attention_forward_no_dropout_inplace _triton_scaled_dot_attention flex_attention "
     "_native_multi_head_attention _triton_multi_head_attention _transformer_encoder_layer_fwd _varlen_attn"},
    {OpClass::recurrent,
     "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell _cudnn_rnn miopen_rnn mkldnn_rnn_layer "
     "_lstm_mps _thnn_fused_lstm_cell _thnn_fused_gru_cell quantized_lstm quantized_gru quantized_lstm_cell "
     "quantized_gru_cell quantized_rnn_relu_cell quantized_rnn_tanh_cell"},
    {OpClass::linear_algebra,
     "cholesky cholesky_inverse cholesky_solve _cholesky_solve_helper det logdet slogdet inverse pinverse geqrf orgqr "
     "ormqr qr svd lu_solve lu_unpack _lu_with_info triangular_solve matrix_exp matrix_power nuclear_norm _spsolve "
     "linalg_cholesky linalg_cholesky_ex linalg_cond linalg_det linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh "
     "linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve "
     "linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_matrix_norm "
     "linalg_matrix_power linalg_matrix_rank linalg_matrix_sqrth linalg_norm linalg_pinv linalg_polar linalg_qr "
     "linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals linalg_tensorinv "
     "linalg_tensorsolve _linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd fft_fft "
     "fft_fft2 fft_fftn fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn "
     "fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn _fft_c2c _fft_c2r _fft_r2c stft istft"},
    {OpClass::embedding, "embedding embedding_bag _embedding_bag _embedding_bag_forward_only"},
    {OpClass::order,
     "sort argsort msort topk kthvalue median nanmedian mode quantile nanquantile unique_dim unique_consecutive "
     "unique_dim_consecutive _unique _unique2"},
    {OpClass::scatter,
     "scatter scatter_add scatter_reduce index_add index_put index_copy index_reduce put _index_put_impl "
     "_unsafe_index_put _unsafe_masked_index_put_accumulate segment_reduce bincount embedding_renorm "
     "_no_grad_embedding_renorm_ max_unpool2d max_unpool3d col2im"},
    {OpClass::norm,
     "layer_norm rms_norm batch_norm group_norm instance_norm native_layer_norm native_batch_norm native_group_norm "
     "_fused_rms_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
     "_native_batch_norm_legit_no_training _batch_norm_impl_index _batch_norm_no_update _batch_norm_with_update "
     "_batch_norm_with_update_functional batch_norm_elemt batch_norm_stats batch_norm_update_stats "
     "batch_norm_gather_stats batch_norm_gather_stats_with_counts cudnn_batch_norm miopen_batch_norm"},
    {OpClass::elementwise,
     "abs absolute acos acosh add addcdiv addcmul addr angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin "
     "asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor "
     "ceil celu clamp clamp_max clamp_min clip clone complex copysign cos cosh deg2rad digamma div divide elu eq erf "
     "erfc erfinv exp exp2 expm1 fill fix float_power floor floor_divide fmax fmin fmod frac frexp gcd ge gelu ger glu "
     "greater greater_equal gt hardshrink hardsigmoid hardswish hardtanh heaviside hypot i0 igamma igammac isclose "
     "isfinite isin isinf isnan isneginf isposinf isreal kron lcm ldexp le leaky_relu lerp less less_equal lgamma "
     "linalg_cross cross log log10 log1p log2 log_sigmoid log_sigmoid_forward logaddexp logaddexp2 logical_and "
     "logical_not logical_or logical_xor logit lt masked_fill maximum minimum mish mul multiply mvlgamma nan_to_num ne "
     "neg negative nextafter not_equal outer polar polygamma positive pow prelu _prelu_kernel rad2deg reciprocal relu "
     "relu6 remainder round rsqrt rsub selu sgn sigmoid sign signbit silu sin sinc sinh softplus softshrink sqrt square "
     "sub subtract tan tanh threshold tril triu true_divide trunc where xlogy zero __and__ __or__ __xor__ __iand__ "
     "__ior__ __ixor__ __lshift__ __rshift__ __ilshift__ __irshift__ _add_relu _conj_physical conj_physical bucketize searchsorted "
     "bloom_gelu less_margin sparse_mixer "
     "rrelu rrelu_with_noise rrelu_with_noise_functional dropout native_dropout _fused_dropout alpha_dropout "
     "feature_dropout feature_alpha_dropout bernoulli binomial cauchy exponential geometric log_normal normal "
     "normal_functional poisson uniform random _standard_gamma _sample_dirichlet _no_grad_normal_ _no_grad_uniform_ "
     "_no_grad_fill_ _no_grad_zero_ _masked_scale _fill_mem_eff_dropout_mask_"},
    {OpClass::reduction,
     "all amax amin aminmax _aminmax any argmax argmin binary_cross_entropy binary_cross_entropy_with_logits "
     "cosine_embedding_loss cosine_similarity count_nonzero cross_entropy_loss ctc_loss _ctc_loss _cudnn_ctc_loss cummax "
     "cummin cumprod cumsum cumulative_trapezoid dist dot frobenius_norm hinge_embedding_loss histc histogram "
     "huber_loss kl_div l1_loss linalg__powsum linalg_vector_norm log_softmax _log_softmax logcumsumexp _logcumsumexp "
     "logsumexp margin_ranking_loss _masked_softmax max mean min mse_loss multi_margin_loss multilabel_margin_loss "
     "multilabel_margin_loss_forward nanmean nansum native_norm nll_loss nll_loss2d nll_loss2d_forward "
     "nll_loss_forward nll_loss_nd norm norm_except_dim pairwise_distance poisson_nll_loss prod renorm "
     "_safe_softmax smooth_l1_loss soft_margin_loss softmax _softmax std std_mean sum sum_to_size trace trapezoid trapz "
     "triplet_margin_loss var var_mean vdot _weight_norm _weight_norm_interface"},
    {OpClass::window,
     "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d "
     "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d affine_grid_generator avg_pool1d avg_pool2d "
     "avg_pool3d fractional_max_pool2d fractional_max_pool3d grid_sampler grid_sampler_2d grid_sampler_3d im2col "
     "__interpolate __upsample __upsample_bilinear __upsample_nearest max_pool1d max_pool1d_with_indices max_pool2d "
     "max_pool2d_with_indices max_pool3d max_pool3d_with_indices upsample_bicubic2d upsample_bilinear2d "
     "upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d "
     "_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa _upsample_nearest_exact1d "
     "_upsample_nearest_exact2d _upsample_nearest_exact3d"},
    {OpClass::copy,
     "arange argwhere as_strided_scatter as_tensor atleast_1d atleast_2d atleast_3d bartlett_window blackman_window "
     "block_diag broadcast_tensors cartesian_prod cat channel_shuffle _chunk_cat column_stack combinations concat "
     "concatenate constant_pad_nd copy diag diag_embed diagflat diagonal_scatter diff dstack empty empty_like "
     "empty_permuted empty_strided eye fft_fftfreq fft_fftshift fft_ifftshift fft_rfftfreq fill_diagonal_ flip fliplr "
     "flipud full full_like gather gradient hamming_window hann_window hstack index index_fill index_select "
     "kaiser_window lift linalg_vander linspace logspace masked_scatter masked_select meshgrid native_channel_shuffle "
     "new_empty new_empty_strided new_full new_ones new_zeros nonzero nonzero_numpy nonzero_static one_hot ones "
     "ones_like pad _pad_circular _pad_enum pad_sequence _pack_padded_sequence _pad_packed_sequence pixel_shuffle "
     "pixel_unshuffle rand rand_like randint randint_like randn randn_like randperm multinomial range reflection_pad1d "
     "reflection_pad2d reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d "
     "resize resize_as roll rot90 row_stack scalar_tensor select_scatter slice_scatter stack _stack take "
     "take_along_dim tensor tile to_dense tril_indices triu_indices type_as unsafe_chunk unsafe_split "
     "unsafe_split_with_sizes _unsafe_index _unsafe_masked_index vander vstack zeros zeros_like cpu cuda _cast_Byte "
     "_cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _to_copy "
     "_cudnn_init_dropout_state _nested_tensor_softmax_with_shape"},
    {OpClass::view,
     "adjoint alias as_strided broadcast_to chunk conj contiguous detach diagonal dsplit expand expand_as flatten "
     "hsplit imag linalg_diagonal lift_fresh mH mT matrix_H moveaxis movedim narrow numpy_T permute pin_memory ravel "
     "real requires_grad_ reshape reshape_as resolve_conj resolve_neg select slice split split_with_sizes squeeze "
     "swapaxes swapdims t tensor_split to transpose unbind unflatten unfold unsqueeze view view_as view_as_complex "
     "view_as_real vsplit _autocast_to_full_precision _autocast_to_reduced_precision _conj _neg_view _reshape_alias "
     "_unsafe_view"},
    {OpClass::host,
     "Bool Complex Float Int FloatImplicit IntImplicit ComplexImplicit ScalarImplicit __contains__ __derive_index "
     "__getitem__ __is__ __isnot__ __not__ __range_length __round_to_zero_floordiv _set_item append dict dim "
     "device divmod extend floordiv format get get_device insert is_autocast_cpu_enabled is_autocast_enabled "
     "is_contiguous is_floating_point is_grad_enabled is_scripting item items join keys len list lower numel pop "
     "popitem set_grad_enabled setdefault size startswith endswith storage_offset str stride sym_numel sym_size "
     "sym_storage_offset sym_stride update values warn _fused_sdp_choice"},
};

// Also random without a tag in PyTorch: dropout inside recurrent layers, and initialization inside a forward.
const char* const kRandom =
    "_cudnn_attention_forward _cudnn_attention_forward_no_dropout_inplace _cudnn_init_dropout_state _cudnn_rnn "
    "_efficient_attention_forward _fill_mem_eff_dropout_mask_ _flash_attention_forward "
    "_flash_attention_forward_no_dropout_inplace _fused_dropout "
    "_fused_sdp_choice _lstm_mps _nested_tensor_softmax_with_shape _no_grad_normal_ _no_grad_uniform_ "
    "_sample_dirichlet _scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps "
    "_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention "
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable _standard_gamma "
    "_triton_scaled_dot_attention alpha_dropout bernoulli binomial cauchy dropout exponential feature_alpha_dropout "
    "feature_dropout geometric gru log_normal lstm miopen_rnn multinomial native_dropout normal normal_functional "
    "poisson rand rand_like randint randint_like randn randn_like random randperm rnn_relu rnn_tanh rrelu "
    "rrelu_with_noise rrelu_with_noise_functional scaled_dot_product_attention uniform";
// clang-format on

using Table = std::unordered_map<std::string, OperatorClassAndArgumentRoles>;

Table make_table() {
  Table table;
  for (const Group& group : kGroups)
    for (const std::string& name : split(group.names, ' ')) table[name].op_class = group.op_class;
  for (const std::string& name : split(kRandom, ' ')) table[name].random = true;
  for (const char* name :
       {"batch_norm", "instance_norm", "native_batch_norm", "_batch_norm_impl_index", "cudnn_batch_norm",
        "miopen_batch_norm", "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts"})
    table.at(name).updates_statistics = {3, 4};
  table.at("batch_norm_update_stats").updates_statistics = {1, 2};
  for (auto& [name, traits] : table) {
    traits.transposed = traits.op_class == OpClass::convolution && name.find("transpose") != std::string::npos;
    traits.leaves_out_ignored = name == "chunked_log_probs";
    traits.holds_layer = name == "linear_cross_entropy" || traits.leaves_out_ignored;
    if (traits.op_class == OpClass::convolution || name == "linear" || name == "linear_4bit" || name == "linear_8bit" ||
        traits.holds_layer)
      traits.weight = 1;
  }
  for (const char* name : {"addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"}) table.at(name).data = 1;
  for (const char* name : {"embedding", "embedding_bag"}) {
    table.at(name).weight = 0;
    table.at(name).data = 1;
  }
  return table;
}

OperatorClassAndArgumentRoles of_class(OpClass op_class) {
  OperatorClassAndArgumentRoles traits;
  traits.op_class = op_class;
  return traits;
}

bool is_between_processes(std::string_view op) {
  return op.starts_with("c10d::") || op.starts_with("_c10d_functional") || op.starts_with("symm_mem::") ||
         op.starts_with("_dtensor::");
}

// Removes the namespaces of PyTorch and memtune only. An op "add" of another library may do anything.
std::string_view without_namespace(std::string_view op) {
  for (const std::string_view own : {"aten::", "higher_order::", "torch_attn::", "memtune::"})
    if (op.starts_with(own)) return op.substr(own.size());
  return op;
}

}  // namespace

std::string to_string(OpClass op_class) { return kClassNames.at(static_cast<size_t>(op_class)); }

OpClass parse_op_class(const std::string& name) {
  const auto found = std::find(kClassNames.begin(), kClassNames.end(), name);
  return found == kClassNames.end() ? OpClass::unknown : static_cast<OpClass>(found - kClassNames.begin());
}

std::string strip_op_namespace(std::string_view op) {
  return std::string(op.starts_with("aten::") ? op.substr(6) : op);
}

const OperatorClassAndArgumentRoles& traits_of(std::string_view op) {
  static const Table table = make_table();
  static const OperatorClassAndArgumentRoles unknown, collective = of_class(OpClass::collective),
                                                      host = of_class(OpClass::host);
  if (op.starts_with("prim::")) return host;
  if (is_between_processes(op)) return collective;
  std::string name(without_namespace(op));
  auto found = table.find(name);
  if (found == table.end() && name.ends_with('_')) {
    name.pop_back();
    found = table.find(name);
  }
  return found == table.end() ? unknown : found->second;
}

bool is_matmul(OpClass op_class) { return op_class == OpClass::matmul || op_class == OpClass::convolution; }

bool is_cheap(OpClass op_class) { return op_class >= OpClass::norm; }

}  // namespace memtune::plan
