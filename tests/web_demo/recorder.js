// Listens to what a page sends to its loudspeaker. Installed before the page's own scripts.
{
  const heard = { blocks: [], rate: 0, mode: "", context: null };
  globalThis.heardByTest = heard;
  globalThis.violationsSeenByTest = [];
  addEventListener("securitypolicyviolation", (event) => violationsSeenByTest.push(`${event.violatedDirective} ${event.blockedURI}`));

  // When the page was told to be silent, by the clock of its audio.
  addEventListener("keydown", ({ key }) => key === "Escape" && (heard.escapedAt = heard.context.currentTime), true);

  const take = (frame, samples) => heard.blocks.push({ frame, samples: Float32Array.from(samples) });

  async function listen(source) {
    const { context } = source;
    heard.context = context;
    heard.rate = context.sampleRate;
    if (context.audioWorklet) {
      heard.mode = "worklet";
      await context.audioWorklet.addModule(recorderOfTheTest);
      const node = new AudioWorkletNode(context, "recorder-of-the-test", { numberOfOutputs: 0 });
      node.port.onmessage = ({ data }) => take(data.frame, data.samples);
      source.connect(node);
    } else {
      heard.mode = "script";
      const node = context.createScriptProcessor(4096, 2, 1);
      // What comes in was played at the latest two buffers before what goes out will be.
      node.onaudioprocess = ({ inputBuffer, playbackTime }) =>
        take(Math.round(playbackTime * context.sampleRate) - 2 * 4096, mono(inputBuffer.getChannelData(0), inputBuffer.getChannelData(1)));
      source.connect(node);
      connect.call(node, context.destination);
    }
  }

  const mono = (left, right) => left.map((x, i) => (x + right[i]) / 2);

  const { connect } = AudioNode.prototype;
  AudioNode.prototype.connect = function (target, ...rest) {
    if (target === this.context.destination && !heard.context) listen(this);
    return connect.call(this, target, ...rest);
  };

  // All so far as one stretch: {rate, start, samples}, samples as base64 of float32.
  globalThis.takeHeard = () => {
    const start = heard.blocks[0]?.frame ?? 0;
    const end = heard.blocks.length ? heard.blocks.at(-1).frame + heard.blocks.at(-1).samples.length : 0;
    const all = new Float32Array(end - start);
    for (const { frame, samples } of heard.blocks) all.set(samples, frame - start);
    const bytes = new Uint8Array(all.buffer);
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    return { rate: heard.rate, start, samples: btoa(text) };
  };
}
