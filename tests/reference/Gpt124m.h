// The NanoGPT speedrun's 124M model and its training step: forward, hand-written backward, and
// Adam and Muon with their schedules.
#pragma once

#include "tests/reference/Model.h"

namespace nano::reference {

class Gpt124m : public Model {
public:
  /// InputError when the sizes do not fit together.
  explicit Gpt124m(Hyperparameters values);

  Shapes parameterShapes() const override;
  Real tokenLossSum(const Tensors &parameters, const Sequence &sequence, int64_t step,
                    Tensors *gradients) const override;
  Normal randomValue(const std::string &name, int64_t index) const override;
  void update(Tensors &parameters, Tensors &gradients, OptimizerState &state,
              int64_t step) const override;

  /// tokenLossSum with the window W given in blocks of 128 instead of by the schedule.
  Real lossWithWindow(const Tensors &parameters, const Sequence &sequence, int64_t window,
                      Tensors *gradients) const;

  /// W at a step, in blocks of 128: ⌈max(1728·step/N, 1) / 128⌉.
  int64_t windowBlocks(int64_t step) const;
  /// m(step/N): 1, then over the last 0.4 of the run linearly down to 0.1.
  Real learningRateFactor(int64_t step) const;
  /// 0.85 + 0.10·min(step/300, 1).
  static Real muonMomentum(int64_t step);

  /// Whether a layer uses the long window W; the others use max(⌊W/2⌋, 1).
  bool isLong(int64_t layer) const;
  /// Layer 7 has none when there are more than 7 layers.
  bool hasAttention(int64_t layer) const { return layer != 7; }
  /// Which of the three value embeddings a layer receives, or −1.
  int64_t valueEmbedding(int64_t layer) const;

private:
  struct LayerValues;
  struct Activations;

  Vec embeddingRows(const Tensor &table, const Sequence &sequence) const;
  /// `scaled`: the head's product in FP8.
  Activations forward(const Tensors &parameters, const Sequence &sequence, int64_t window,
                      bool scaled) const;
  void attentionForward(const Tensors &parameters, const Sequence &sequence, int64_t layer,
                        int64_t window, const std::vector<int64_t> &documents,
                        LayerValues &values) const;
  /// Returns ∂loss/∂(input of the attention), adds parameter gradients.
  Vec attentionBackward(const Tensors &parameters, const Sequence &sequence, int64_t layer,
                        const LayerValues &values, const Vec &dOut, Tensors &gradients) const;
  void backward(const Tensors &parameters, const Sequence &sequence, const Activations &all,
                Vec dLogits, Tensors &gradients) const;

  /// What the head's products read in training with fp8=head: operands as 8 bits show them.
  void scaleHead(Activations &all) const;
  void scaleHeadBackward(const Vec &dz, const Activations &all, Vec &dHeadIn, Vec &dWeight) const;

  int64_t layers, heads, headDim, modelDim, attentionDim, paddedVocab;
  std::string headScaling; ///< "off", "static", "current", "delayed", "block"
  /// Delayed scaling of one tensor: the largest magnitudes of this step and of up to 16 before it.
  struct Delayed {
    Real scale, largest = 0;
    std::vector<Real> history = {};
    void see(const Vec &x);
    void endStep(Real largestNumber);
  };
  mutable Delayed delayedInput{1}, delayedGradient{0x1p-12};
};

} // namespace nano::reference
