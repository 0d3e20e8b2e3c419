// What this page does differently from Swagger UI, in the form of its plugins.
// https://swagger.io/docs/open-source-tools/swagger-ui/customization/plugin-api/

/** The whole page within the one `main` of index.html, in the order of its headings. */
function layoutOf({ React: { createElement: make } }) {
  return function InterfaceLayout({ getComponent, specSelectors }) {
    const show = name => make(getComponent(name, true))
    const isLoaded = specSelectors.loadingStatus() === 'success'
    if (!isLoaded) return make('div', { className: 'swagger-ui' }, show('errors'))
    return make(
      'div',
      { className: 'swagger-ui wrapper' },
      show('errors'),
      show('InfoContainer'),
      // A button for the API key; nothing if the service requires none.
      show('AuthorizeBtnContainer'),
      make('h2', { className: 'unseen' }, 'Operations'),
      show('operations'),
      show('Models'),
    )
  }
}

/** One row for each response. Its details are shown on demand, because every response has the same dozen headers. */
function foldAnswer(Answer, { React, getComponent }) {
  const { createElement: make, Fragment, useState } = React
  return function FoldedAnswer(props) {
    const { code, response } = props
    const [isOpen, setOpen] = useState(false)
    const button = make('button', { type: 'button', 'aria-expanded': isOpen }, code)
    const description = make(getComponent('Markdown', true), {
      source: response.get('description'),
    })
    return make(
      Fragment,
      null,
      make(
        'tr',
        { className: 'answer', onClick: () => setOpen(!isOpen) },
        make('td', { className: 'answer-status' }, button),
        make('td', null, description),
      ),
      isOpen && make(Answer, props),
    )
  }
}

/** Puts a field into a label, whose text is for screen readers. */
function label(textOf) {
  return (Field, { React: { createElement: make } }) =>
    function LabelledField(props) {
      const text = make('span', { className: 'unseen' }, textOf(props))
      return make('label', { className: 'field' }, text, make(Field, props))
    }
}

/** Plain text instead of a link: it would be inside a button that does the same. */
function textOfLink(_Link, { React: { createElement: make } }) {
  return ({ text }) => make('span', null, text)
}

/** Without this, the button of a schema without a title would have no name. */
function nameSchema(Accordion, { React: { createElement: make } }) {
  return props =>
    make(Accordion, props, props.children, make('span', { className: 'unseen' }, ' schema'))
}

/** Makes code that scrolls reachable by keyboard. */
function focusCode(Code, { React: { createElement: make, useEffect, useRef } }) {
  return function FocusableCode(props) {
    const place = useRef(null)
    useEffect(() => {
      for (const code of place.current.querySelectorAll('pre')) code.tabIndex = 0
    })
    return make('div', { ref: place }, make(Code, props))
  }
}

export function interfacePage(system) {
  return {
    components: { InterfaceLayout: layoutOf(system) },
    wrapComponents: {
      response: foldAnswer,
      DeepLink: textOfLink,
      HighlightCode: focusCode,
      curl: focusCode,
      JSONSchema202012Accordion: nameSchema,
      JsonSchemaForm: label(({ description }) => description),
      RequestBodyEditor: label(() => 'Body to send'),
      ExamplesSelect: label(() => 'Example'),
    },
  }
}
