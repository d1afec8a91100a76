package dataset

import (
	"net/http"
	"path"
	"strings"
)

// mimeTypes is fixed here, since the lists of operating systems differ: the
// same dataset must make the same messages everywhere.
var mimeTypes = map[string]string{
	".aac":     "audio/aac",
	".avif":    "image/avif",
	".bin":     anyBytes,
	".bmp":     "image/bmp",
	".csv":     "text/csv",
	".flac":    "audio/flac",
	".gif":     "image/gif",
	".gz":      "application/gzip",
	".heic":    "image/heic",
	".htm":     "text/html",
	".html":    "text/html",
	".jpeg":    "image/jpeg",
	".jpg":     "image/jpeg",
	".json":    "application/json",
	".jsonl":   "application/jsonl",
	".m4a":     "audio/mp4",
	".md":      "text/markdown",
	".mkv":     "video/matroska",
	".mov":     "video/quicktime",
	".mp3":     "audio/mpeg",
	".mp4":     "video/mp4",
	".npy":     "application/x-npy",
	".ogg":     "audio/ogg",
	".opus":    "audio/ogg",
	".parquet": "application/vnd.apache.parquet",
	".pdf":     "application/pdf",
	".png":     "image/png",
	".svg":     "image/svg+xml",
	".tif":     "image/tiff",
	".tiff":    "image/tiff",
	".txt":     "text/plain",
	".wav":     "audio/wav",
	".webm":    "video/webm",
	".webp":    "image/webp",
	".xml":     "application/xml",
	".zip":     "application/zip",
	".zst":     "application/zstd",
}

// sniff goes by the first bytes.
func sniff(data []byte) string {
	media, _, _ := strings.Cut(http.DetectContentType(data), ";")
	return media
}

// contentTypeOfName goes by the extension; "" when that is not known.
func contentTypeOfName(name string) string { return mimeTypes[strings.ToLower(path.Ext(name))] }
