// Prints the requests that the importers of Postman and Bruno make of an OpenAPI document, with their defaults, as JSON lines.
// Usage, in a folder where both are installed: node requests.mjs DOCUMENT
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const require = createRequire(join(process.cwd(), 'package.json'))
const [path = ''] = process.argv.slice(2)
const read = () => JSON.parse(readFileSync(path, 'utf8'))
const print = request => console.log(JSON.stringify(request))
const leavesOf = list =>
  list.flatMap(entry => {
    const inner = entry.item ?? entry.items
    return inner === undefined ? [entry] : leavesOf(inner)
  })

const importInPostman = options =>
  new Promise((resolve, reject) =>
    require('openapi-to-postmanv2').convertV2(
      { type: 'json', data: read() },
      options,
      (error, result) => (error ? reject(error) : resolve(leavesOf(result.output[0].data.item))),
    ),
  )

// A placeholder such as `<string>` is for a person to fill in. Where one must, that is done from the examples of the document.
const filled = await importInPostman({ parametersResolution: 'Example' })
for (const [index, { request }] of (await importInPostman({})).entries()) {
  const { method, url, header } = request
  const example = filled[index].request
  const isPlaceholder = value => /^<.*>$/.test(value)
  const isNeeded = ({ description }) => /^\(Required\)/.test(description?.content ?? description)
  const pairs = (list = [], examples = []) =>
    list
      .filter(entry => !entry.disabled && (!isPlaceholder(entry.value) || isNeeded(entry)))
      .map(({ key, value }) => [
        key,
        isPlaceholder(value) ? examples.find(other => other.key === key)?.value : value,
      ])
  print({
    from: 'Postman',
    method,
    path: `/${url.path.join('/')}`.replace(':id', '1'),
    query: pairs(url.query, example.url.query),
    headers: pairs(header),
    body: example.body?.raw,
  })
}

const { items } = await require('@usebruno/converters').openApiToBruno(read())
for (const { request } of leavesOf(items)) {
  const { method, url, params, headers, body } = request
  const pairs = list =>
    list.filter(({ enabled }) => enabled).map(({ name, value }) => [name, value])
  const inPath = Object.fromEntries(params.map(({ name, value }) => [name, value]))
  const { pathname } = new URL(url.replace('{{baseUrl}}', 'http://x'))
  print({
    from: 'Bruno',
    method,
    path: pathname.replace(/:(\w+)/, (_, name) => inPath[name]),
    query: pairs(params.filter(({ type }) => type === 'query')),
    // Bruno itself adds the type of a body.
    headers: [
      ...pairs(headers),
      ...(body.mode === 'json' ? [['Content-Type', 'application/json']] : []),
    ],
    body: body?.json ?? undefined,
  })
}
