package config

import "time"

// Model says what is run, and how items become its inputs and its outputs
// become results.
type Model struct {
	// Kind is onnx or command. No default.
	Kind string `mapstructure:"kind"`
	// Version is stored with each result. Empty means what the runner says of
	// itself, or a hash of the model and of every setting that changes its
	// outputs.
	Version string `mapstructure:"version"`
	// MaxBatch is the largest batch that the model takes. 0 means what the
	// runner says, or no limit.
	MaxBatch int `mapstructure:"max_batch"`
	// StartTimeout is how long loading and warming up may take. Default 10m.
	StartTimeout time.Duration `mapstructure:"start_timeout"`

	// Path is the model file (onnx).
	Path string `mapstructure:"path"`
	// Device is cpu or cuda (onnx). Default cpu. cuda never falls back to cpu.
	Device string `mapstructure:"device"`
	// DeviceID is the number of the GPU (onnx, cuda). Default 0.
	DeviceID int `mapstructure:"device_id"`
	// Threads is the number of CPU threads inside one run of the model (onnx,
	// cpu). 0 means what ONNX Runtime chooses.
	Threads int `mapstructure:"threads"`
	// Library is the ONNX Runtime shared library (onnx). Empty means the
	// variable ONNXRUNTIME_LIB, then the loader's search path.
	Library string `mapstructure:"library"`

	// Input says how a payload becomes a tensor (onnx).
	Input Input `mapstructure:"input"`
	// Output says how a tensor becomes a result (onnx).
	Output Output `mapstructure:"output"`

	// Command is the program and its arguments (command).
	Command []string `mapstructure:"command"`
	// Dir is the program's working directory (command). Empty means the
	// worker's own.
	Dir string `mapstructure:"dir"`
}

// Input says how a payload becomes the model's input tensor.
type Input struct {
	// Codec is image, field or tensor. Default image.
	//
	// image: the payload is a PNG or JPEG. field: Field of the JSON payload
	// is a number or an array of numbers, nested as the tensor's shape.
	// tensor: the payload is the tensor's bytes, little-endian, row by row.
	Codec string `mapstructure:"codec"`
	// Name is the model's input. Empty means its only one.
	Name string `mapstructure:"name"`
	// Field is the name of the JSON field (codec field).
	Field string `mapstructure:"field"`
	// Image is for codec image.
	Image Image `mapstructure:"image"`
}

// Image says how pixels become numbers.
type Image struct {
	// Width and Height in pixels. 0 means what the model's input says.
	Width  int `mapstructure:"width"`
	Height int `mapstructure:"height"`
	// Color is gray or rgb. Default rgb.
	Color string `mapstructure:"color"`
	// Layout is nchw or nhwc. Default nchw.
	Layout string `mapstructure:"layout"`
	// Mean and Std are one number, or one for each channel, applied to values
	// scaled to 0..1: (x - mean) / std. Empty means mean 0 and std 1.
	Mean []float64 `mapstructure:"mean"`
	Std  []float64 `mapstructure:"std"`
	// MaxPixels refuses larger images before they are decoded. Default 50
	// million, about 200 MB decoded.
	MaxPixels int `mapstructure:"max_pixels"`
}

// Output says how an output tensor becomes a result.
type Output struct {
	// Codec is topk or raw. Default raw.
	//
	// topk: {"label","score","top":[{"label","score"}...]} of a vector of
	// class scores. raw: {"NAME": nested arrays of numbers}.
	Codec string `mapstructure:"codec"`
	// Name is the model's output. Empty means its only one.
	Name string `mapstructure:"name"`
	// K is the number of classes in topk. Default 5.
	K int `mapstructure:"k"`
	// Softmax turns scores into probabilities first (topk). Default false.
	Softmax bool `mapstructure:"softmax"`
	// Labels are the names of the classes in order (topk). Empty means their
	// numbers.
	Labels []string `mapstructure:"labels"`
	// LabelsFile has one label a line; used when Labels is empty.
	LabelsFile string `mapstructure:"labels_file"`
}

func defaultModel() Model {
	return Model{
		StartTimeout: 10 * time.Minute,
		Device:       "cpu",
		Input:        Input{Codec: "image", Image: Image{Color: "rgb", Layout: "nchw", MaxPixels: 50_000_000}},
		Output:       Output{Codec: "raw", K: 5},
	}
}
